"""orun plan."""

from __future__ import annotations

import json
from pathlib import Path

from .conftest import CommandLine, steady


def test_before_the_first_run_everything_would_run(orun: CommandLine, project: Path) -> None:
    shown = orun("plan", "words.yaml")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out == (
        """\
stage  would  why
write  run    never run before
count  run    never run before; after write

2 of 2 stages to run; to do so: orun run words.yaml
"""
    )
    assert not list((project / "artifacts").rglob("text.txt"))


def test_after_it_nothing_would_and_a_change_says_why(orun: CommandLine, project: Path) -> None:
    del project
    orun("words.yaml")
    assert orun("plan", "words.yaml").out == (
        """\
stage  would  why
write  stay   up to date
count  stay   up to date

nothing to run: every stage is up to date
"""
    )
    changed = orun("plan", "words.yaml", "--set", "stages.write.with.text=a b c")
    assert steady(changed.out) == (
        """\
stage  would  why  last time
write  run  parameter text: "one two three" -> "a b c"  TIME
count  maybe run  after write  TIME

2 of 2 stages to run, about TIME one after another; to do so: orun run words.yaml --set 'stages.write.with.text=a b c'
"""
    )
    forced = orun("plan", "--force", "words.yaml", "--only", "count")
    assert steady(forced.out) == (
        """\
stage  would  why  last time
count  run  forced  TIME

1 of 1 stage to run, about TIME one after another; to do so: orun run --force words.yaml --only count
"""
    )


def test_json(orun: CommandLine, project: Path) -> None:
    del project
    document = json.loads(orun("plan", "words.yaml", "--to", "write", "--json").out)
    (step,) = document["steps"]
    assert document["pipeline"] == "words"
    assert len(step.pop("key")) == 64
    assert step == {
        "stage": "write",
        "uses": "./words.py:write",
        "action": "run",
        "reasons": ["never run before"],
        "seconds": None,
    }


def test_an_unknown_stage(orun: CommandLine, project: Path) -> None:
    del project
    shown = orun("plan", "words.yaml", "--only", "cuont")
    assert (shown.code, shown.out) == (2, "")
    assert shown.err == (
        "error: there is no stage 'cuont' in words.yaml\n  did you mean count?\n  hint: orun graph words.yaml\n"
    )
