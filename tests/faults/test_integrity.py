"""Damage to a store never ends in a wrong artifact with exit 0; `benchmarks/faults.py` tries thousands more."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.faults import integrity
from tests.faults.damage import dangle, delete, flip, keeping_times, make_file, make_folder
from tests.faults.projects import FIRST
from tests.faults.rig import Judgement, Rig
from tests.thin import mostly_slow

SEED = "2026-11"


@pytest.mark.parametrize("number", mostly_slow(range(8), 0, 1))
def test_random_damage_to_a_store_of_plain_functions(text: Rig, number: int) -> None:
    fault, judgement = integrity.trial(text, Random(f"{SEED}-{number}"))
    assert judgement.outcome != "wrong", f"{fault}: {judgement.why}"


@pytest.mark.slow
@pytest.mark.parametrize("number", range(2))
def test_random_damage_to_a_store_of_models(model: Rig, number: int) -> None:
    fault, judgement = integrity.trial(model, Random(f"{SEED}-{number}"))
    assert judgement.outcome != "wrong", f"{fault}: {judgement.why}"


def after(rig: Rig, damage: Callable[[Path, Random], None], pattern: str) -> Judgement:
    """What becomes of the run after this damage to the first file or folder that fits the pattern."""
    rig.reset()
    damage(next(iter(sorted(rig.store.glob(pattern)))), Random(SEED))
    return rig.judge(FIRST, rig.run(FIRST), rig.damage(FIRST))


def test_an_output_that_is_edited_in_place_damages_its_object_and_both_are_mended(text: Rig) -> None:
    judgement = after(text, keeping_times(flip), "out/text/join/text")
    assert judgement == Judgement("rebuilt", "join")


def test_the_folder_of_all_runs_is_made_anew(text: Rig) -> None:
    assert after(text, delete, "runs") == Judgement("survived")


@pytest.mark.parametrize("damage", [make_file, dangle])
def test_something_else_in_the_place_of_the_runs_is_said(text: Rig, damage: Callable[[Path, Random], None]) -> None:
    judgement = after(text, damage, "runs")
    runs = text.store / "runs"
    assert judgement == Judgement("refused", f"cannot open the store: file exists: {runs}: File exists")


def test_the_note_of_the_last_run_is_no_more_than_a_help(text: Rig) -> None:
    assert after(text, make_folder, "index/run-*") == Judgement("survived")


def test_what_a_dead_process_has_left_is_removed_by_a_run_with_nothing_to_do(text: Rig) -> None:
    text.reset()
    integrity.a_leftover(text, Random(SEED))
    assert text.run(FIRST).stages("built") == ()
    assert list((text.store / "tmp").iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("lines", [("store", "gc"), ("pipeline.yaml", "--force")])
def test_what_a_dead_process_has_left_may_hold_anything(text: Rig, lines: tuple[str, ...]) -> None:
    text.reset()
    integrity.a_leftover(text, Random(SEED))
    (lease,) = text.store.glob("tmp/*/lease")
    garbage = b"\xf4 no digest\n"
    lease.write_bytes(garbage)
    (text.store / "tmp" / "condemned").write_bytes(garbage)
    ended = text.start(text, (*lines, "--store", str(text.store)))
    assert (ended.code, ended.err) == (0, "")
    assert list((text.store / "tmp").iterdir()) == []


def test_refusals_say_how_to_go_on(text: Rig) -> None:
    text.reset()
    (text.store / "VERSION").write_text("orun store, layout 2, blake3\n")
    ended = text.run(FIRST, "--force", "join")
    assert ended.code == 3
    assert json.loads(ended.out)["error"]["hint"] == (
        f"Use the version of orun that made it, or put it aside and begin a new one:\nmv {text.store} {text.store}.old"
    )
