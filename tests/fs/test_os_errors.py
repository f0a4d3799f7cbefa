"""Words for what the operating system refuses."""

from __future__ import annotations

import errno
import os
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest

from orun.fs.os_errors import quote, to_store_error


@pytest.mark.parametrize("path", ["/a/b-c_d.e", "/a b", "it's", "/größe", "$HOME", "a;b", "", "~/x", "a\nb", "*"])
def test_a_path_is_one_word_for_a_shell(path: str) -> None:
    assert shlex.split(quote(path)) == [path]


def test_a_path_is_quoted_only_if_it_must_be() -> None:
    for path in ("int8", "größe/int8.yaml", "/var/lib/orun-1.0_x/store"):
        assert quote(path) == path
    assert quote("int8[per_channel=true]") == "'int8[per_channel=true]'"


def test_an_error_that_nobody_thought_of_is_told_too() -> None:
    error = to_store_error(OSError(39, "Directory not empty", "/tmp"), "clean up", "/")  # noqa: S108
    assert str(error) == (
        "cannot clean up: directory not empty\n  /tmp: Directory not empty\n  hint: Look at what is there: ls -ld /tmp"
    )
    assert error.problem == to_store_error(OSError("Directory not empty"), "clean up", "/").problem


def test_a_permission_error_on_windows_names_no_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "geteuid")
    error = to_store_error(PermissionError(errno.EACCES, "Permission denied", "/"), "clean up", "/")
    assert str(error) == (
        "cannot clean up: permission denied\n  /: Permission denied\n  hint: See whose it is: ls -ld '/'"
    )


def test_a_store_that_was_moved_away_is_told(tmp_path: Path) -> None:
    lock = tmp_path / "store" / "locks" / "4f"
    error = to_store_error(FileNotFoundError(errno.ENOENT, "No such file or directory", str(lock)), "take a lock", lock)
    assert str(error) == (
        f"cannot take a lock: there is no {tmp_path}/store (any more)\n  {lock}: No such file or directory\n"
        "  hint: If it was moved, put it back, or say where it is, and run again"
    )
    path = tmp_path / "4f"
    error = to_store_error(FileNotFoundError(errno.ENOENT, "No such file or directory", str(path)), "take a lock", path)
    assert error.problem == "cannot take a lock: no such file or directory"


def test_what_another_user_keeps_to_himself_is_told_with_what_he_may_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of users who share a store, one whose umask is wrong keeps the others from going on."""
    mine = to_store_error(
        PermissionError(errno.EPERM, "Operation not permitted", str(tmp_path)), "check out a/b", tmp_path
    )
    assert str(mine).endswith(f"\n  hint: See whose it is: ls -ld {tmp_path}")
    other = os.geteuid() + 4242
    status = SimpleNamespace(st_uid=other)
    monkeypatch.setattr(Path, "lstat", lambda _path: status)
    error = to_store_error(
        PermissionError(errno.EPERM, "Operation not permitted", str(tmp_path)), "check out a/b", tmp_path
    )
    monkeypatch.undo()
    assert str(error) == (
        f"cannot check out a/b: permission denied\n  {tmp_path}: Operation not permitted\n"
        f"  hint: See whose it is: ls -ld {tmp_path}. It is user {other}'s, who lets the group write by"
        f" `chmod -R g+w {tmp_path}`, and by `umask 002` from now on"
    )
