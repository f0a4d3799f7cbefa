"""Errors of a library as failures of a stage."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import pytest

from orun.errors import StageFailed, UsageError
from orun.stages.library_errors import describe_error, failing
from tests.stages.models import WORDY, parse
from tests.stages.support import artifact, make_context, run_stage


def test_the_cause_at_the_root_is_told_in_few_lines() -> None:
    assert describe_error(KeyError()) == "KeyError: no message"
    assert describe_error(ValueError("one\n\n  two\nthree\nfour")) == "ValueError: one\ntwo\nthree"
    advice = RuntimeError("read the manual")
    advice.__cause__ = TypeError("no such thing")
    assert describe_error(advice) == "TypeError: no such thing"


def test_errors_of_orun_pass_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = UsageError("this is ours", hint="do that")

    def refuse(*_: object, **__: object) -> None:
        raise refusal

    monkeypatch.setattr("onnxruntime.quantization.quantize_dynamic", refuse)
    with pytest.raises(UsageError) as caught:
        run_stage("quantize/dynamic", tmp_path, inputs={"model": artifact(tmp_path, parse(WORDY))})
    assert caught.value is refusal


def test_the_log_has_the_whole_message(tmp_path: Path) -> None:
    text, log = io.StringIO(), logging.Logger("stage")  # noqa: LOG001 - one that no other test hears
    log.addHandler(logging.StreamHandler(text))
    context = make_context(tmp_path, open_log=lambda: log)
    with pytest.raises(StageFailed) as caught, failing(context, "it cannot be read", "try another"):
        raise RuntimeError("first\nsecond\nthird\nfourth")
    assert str(caught.value) == (
        "it cannot be read\n  RuntimeError: first\n  second\n  third\n"
        "  hint: try another; the log has the whole message"
    )
    assert text.getvalue().startswith("it cannot be read\nTraceback (most recent call last):\n")
    assert "RuntimeError: first\nsecond\nthird\nfourth" in text.getvalue()
