"""The judge of the campaign is not blind."""

from __future__ import annotations

import os

import pytest

from tests.faults.damage import overwrite
from tests.faults.projects import FIRST
from tests.faults.rig import CHECKOUT, Ended, Judgement, Rig, environment


def test_a_wrong_artifact_and_its_damaged_object_are_found(text: Rig) -> None:
    text.reset()
    ended = text.run(FIRST)
    assert text.judge(FIRST, ended, ()) == Judgement("survived")
    joined = text.out / "join" / "text"
    digest = text.clean[FIRST]["join/text"]
    overwrite(joined, b"something else")
    assert text.judge(FIRST, ended, ()) == Judgement("wrong", f"exit 0 with out/text/join/text, object {digest}")


def test_a_repair_without_a_word_is_wrong(text: Rig) -> None:
    text.reset()
    judgement = text.judge(FIRST, text.run(FIRST), ("out/text/join/text",))
    assert judgement == Judgement("wrong", "repaired without a word: out/text/join/text")


def test_an_end_that_nothing_explains_is_wrong(text: Rig) -> None:
    assert text.judge(FIRST, Ended(-9, "", ""), ()) == Judgement("wrong", "exit -9 and no error: ")
    assert text.judge(FIRST, Ended(5, "a bug", ""), ()) == Judgement("wrong", "exit 5: a bug")


def test_runs_are_of_the_orun_beside_the_tests_wherever_python_looks_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/of/another/orun")
    assert environment()["PYTHONPATH"] == f"{CHECKOUT}{os.pathsep}/of/another/orun"
    monkeypatch.delenv("PYTHONPATH")
    assert environment()["PYTHONPATH"] == str(CHECKOUT)
