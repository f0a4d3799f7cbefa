"""Words for what the operating system refuses."""

from __future__ import annotations

import shlex

import pytest

from orun.store.refusals import quoted, refusal


@pytest.mark.parametrize("path", ["/a/b-c_d.e", "/a b", "it's", "/größe", "$HOME", "a;b", "", "~/x", "a\nb", "*"])
def test_a_path_is_one_word_for_a_shell(path: str) -> None:
    assert shlex.split(quoted(path)) == [path]


def test_plain_paths_stay_as_they_are() -> None:
    assert quoted("/var/lib/orun-1.0_x/store") == "/var/lib/orun-1.0_x/store"


def test_an_error_that_nobody_thought_of_is_told_too() -> None:
    error = refusal(OSError(39, "Directory not empty", "/tmp"), "clean up", "/")  # noqa: S108
    assert str(error) == (
        "cannot clean up: directory not empty\n  /tmp: Directory not empty\n  hint: Look at what is there: ls -ld /tmp"
    )
    assert error.what == refusal(OSError("Directory not empty"), "clean up", "/").what
