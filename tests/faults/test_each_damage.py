"""Each kind of damage to each part of a store: what the next run does about it, and what it says."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from stat import S_IMODE

import pytest

from tests.faults.damage import FILE, delete
from tests.faults.projects import FIRST
from tests.faults.rig import Ended, Judgement, Rig
from tests.thin import mostly_slow

STAGE = "join"  # its artifact is one file, and two stages come after it
OUTPUT = f"out/text/{STAGE}/text"
CHANGED = ("flip", "truncate", "replace")
GONE = ("delete", "rename")


def an_object(rig: Rig) -> Path:
    return rig.object(rig.clean[FIRST][f"{STAGE}/text"])


def a_record(rig: Rig) -> Path:
    pointer: Mapping[str, str] = json.loads((rig.store / "latest" / "text" / f"{STAGE}.json").read_bytes())["record"]
    return rig.store / "actions" / pointer["key"][:2] / pointer["key"] / f"{pointer['variant']}.json"


def hit(rig: Rig, path: Callable[[Rig], Path], damage: str) -> Ended:
    """Damage a file of a store in which everything is up to date, and run."""
    rig.reset()
    FILE[damage](path(rig), Random(f"2026-11 {damage}"))
    return rig.run(FIRST)


def settled(rig: Rig) -> bool:
    """Whether the run after that has nothing to do and nothing to say, and every file is as a clean run leaves it."""
    return rig.judge(FIRST, rig.run(FIRST), ()) == Judgement("survived")


def reasons(ended: Ended) -> Mapping[str, list[str]]:
    """Why each stage ran that did."""
    return {stage["stage"]: stage["reasons"] for stage in ended.document["stages"] if stage["outcome"] == "built"}


@pytest.mark.parametrize("damage", mostly_slow([*CHANGED, *GONE], "flip", "delete"))
def test_an_object(text: Rig, damage: str) -> None:
    ended = hit(text, an_object, damage)
    assert reasons(ended) == {STAGE: ["its stored result is damaged: text is missing from the store"]}
    digest = text.clean[FIRST][f"{STAGE}/text"]
    notices = [
        notice for notice in ended.notices() if notice.startswith(f"object {digest} was damaged; moved to quarantine")
    ]
    assert len(notices) == (damage in CHANGED)
    assert text.damage(FIRST) == ()
    assert settled(text)


@pytest.mark.parametrize("damage", mostly_slow([*CHANGED, *GONE], "flip"))
def test_the_record_of_an_action(text: Rig, damage: str) -> None:
    ended = hit(text, a_record, damage)
    renamed = damage == "rename"  # it still lies under its key, and what it says it is
    assert reasons(ended) == ({} if renamed else {STAGE: ["never run before"]})
    notices = [notice for notice in ended.notices() if notice.startswith("a record of key ")]
    assert len(notices) == (damage in CHANGED)
    assert text.damage(FIRST) == ()
    assert settled(text)


@pytest.mark.parametrize("damage", mostly_slow([*CHANGED, *GONE, "chmod 000"], "flip"))
def test_the_index(text: Rig, damage: str) -> None:
    """It only spares reading: without the note of the last run it is asked, and what it says is not believed."""

    def index(rig: Rig) -> Path:
        for note in rig.store.glob("index/run-*"):
            delete(note, Random())
        return rig.store / "index" / "signatures.sqlite"

    ended = hit(text, index, damage)
    assert reasons(ended) == {}
    assert text.damage(FIRST) == ()
    assert settled(text)


@pytest.mark.parametrize("damage", mostly_slow([*CHANGED, *GONE], "flip"))
def test_a_checkout(text: Rig, damage: str) -> None:
    ended = hit(text, an_output, damage)
    linked = (text.out / "left" / "text").stat().st_nlink > 1  # what is written to it then reaches the object as well
    assert list(reasons(ended)) == ([STAGE] if linked and damage in ("flip", "truncate") else [])
    put_away = [
        notice for notice in ended.notices() if notice.startswith(f"{OUTPUT} no longer matches its stored result")
    ]
    assert len(put_away) == (damage in CHANGED)
    if not reasons(ended):
        assert f"{STAGE}: restored {text.out / STAGE}" in ended.notices()
    assert text.damage(FIRST) == ()
    assert settled(text)


def an_output(rig: Rig) -> Path:
    return rig.store / OUTPUT


def a_run(rig: Rig) -> Path:
    return max(rig.store.glob("runs/*/record.json"))


@pytest.mark.parametrize("part", mostly_slow([an_object, a_record, an_output, a_run], an_object, a_run))
def test_a_mode_is_put_right(text: Rig, part: Callable[[Rig], Path]) -> None:
    ended = hit(text, part, "chmod 000")
    assert reasons(ended) == {}
    assert text.damage(FIRST) == ()
    assert settled(text)
    if part in (an_object, an_output):  # a record that can be read needs no other mode
        assert S_IMODE(part(text).stat().st_mode) == 0o444


@pytest.mark.parametrize("damage", mostly_slow([*CHANGED, *GONE], "flip"))
def test_the_record_of_a_run(text: Rig, damage: str) -> None:
    """No result depends on it; who asks for that run is told."""
    ended = hit(text, a_run, damage)
    lost = sorted(text.store.glob("runs/*"))[-2]
    assert reasons(ended) == {}
    assert settled(text)
    run = text.start(text, ("diff", lost.name, "last", "--store", str(text.store)))
    assert run.code != 0
    if damage in GONE:
        assert run.err.startswith(f"error: the run {lost.name} has no record: it goes on, or was killed\n")
    else:
        assert run.err.startswith(f"error: the record {lost / 'record.json'} was damaged\n")
        assert f"rm {lost / 'record.json'}\n" in run.err
    verified = text.start(text, ("store", "verify", "--store", str(text.store)))
    assert verified.code == (damage in CHANGED)
    assert (f"the record {lost / 'record.json'} was damaged\n" in verified.out) == (damage in CHANGED)
