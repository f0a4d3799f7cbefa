"""orun plan."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orun.environment import distributions
from tests.project import install_hint

from .conftest import CommandLine, steady


def test_before_the_first_run_everything_would_run(orun: CommandLine, project: Path) -> None:
    shown = orun("plan", "words.yaml")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out == (
        """\
stage  would  why
write  run    never run before
count  run    never run before; after write

2 of 2 stages to run; to do so: orun words.yaml
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

2 of 2 stages to run, about TIME one after another; to do so: orun words.yaml --set 'stages.write.with.text=a b c'
"""
    )
    forced = orun("plan", "--force", "words.yaml", "--only", "count")
    assert steady(forced.out) == (
        """\
stage  would  why  last time
count  run  forced  TIME

1 of 1 stage to run, about TIME one after another; to do so: orun --force words.yaml --only count
"""
    )


def test_a_stage_whose_inputs_are_not_selected(orun: CommandLine, project: Path) -> None:
    del project
    assert orun("plan", "words.yaml", "--only", "count").out == (
        """\
stage  would       why
count  be blocked  write did not run

nothing to run: 1 of 1 stage blocked
note: count needs write, not up to date and not selected; to select all that it needs: --to count
"""
    )
    (step,) = json.loads(orun("plan", "words.yaml", "--only", "count", "--json").out)["steps"]
    assert step["action"] == "blocked"
    assert step["causes"] == [
        {
            "code": "stage-before",
            "arguments": {"stage": "write", "outcome": "blocked"},
            "because": [{"code": "not-selected"}],
        }
    ]
    assert orun("words.yaml", "--only", "count").code == 3
    orun("words.yaml", "--to", "write")
    assert "note: " not in orun("plan", "words.yaml", "--only", "count").out


CHAIN = """\
stages:
  write: {uses: ./words.py:write, with: {text: a b c}}
  copy: {uses: ./words.py:copy, needs: {text: write}}
  count: {uses: ./words.py:count, needs: {text: copy}}
"""
COPY = """

@stage(inputs={"text": "files"}, output="files")
def copy(context: Context) -> None:
    (context.output / "text.txt").write_text((context.inputs["text"] / "text.txt").read_text().upper())
"""


def test_a_stage_that_is_left_out_may_turn_out_to_be_up_to_date(orun: CommandLine, project: Path) -> None:
    """It is behind a selected stage that may yield the same bytes as before."""
    with (project / "words.py").open("a") as code:
        code.write(COPY)
    (project / "chain.yaml").write_text(CHAIN)
    orun("chain.yaml")
    change = ("--set", "stages.write.with.text=A B C")
    selected = orun("plan", "chain.yaml", "--only", "write", "--only", "count", *change)
    assert [line.split()[:2] for line in selected.out.splitlines()[1:3]] == [["write", "run"], ["count", "maybe"]]
    alone = orun("plan", "chain.yaml", "--only", "count", *change)
    assert alone.out.splitlines()[1].split("  ")[:2] == ["count", "be blocked"]
    assert alone.out.endswith(
        "note: count needs copy, not up to date and not selected; to select all that it needs: --to count\n"
    )


def test_a_remote_is_not_asked(orun: CommandLine, project: Path) -> None:
    note = "note: the remote is not asked; what it holds is fetched instead of built\n"
    remote = ("--remote", f"file://{project}/remote")
    assert orun("plan", "words.yaml", *remote).out.endswith(f"orun words.yaml {' '.join(remote)}\n{note}")
    assert note not in orun("plan", "words.yaml", "--remote", "off").out
    orun("words.yaml")
    assert orun("plan", "words.yaml", *remote).out.endswith("nothing to run: every stage is up to date\n")


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
        "causes": [{"code": "never-run"}],
        "seconds": None,
    }


def test_an_unknown_stage(orun: CommandLine, project: Path) -> None:
    del project
    shown = orun("plan", "words.yaml", "--only", "cuont")
    assert (shown.code, shown.out) == (2, "")
    assert shown.err == (
        "error: there is no stage 'cuont' in words.yaml\n  did you mean count?\n  hint: orun graph words.yaml\n"
    )


LACKING = """\
stages:
  write: {uses: './words.py:write', with: {text: a b}}
  import: {uses: convert/onnx, with: {path: model.onnx}}
  slim: {uses: optimize/simplify, needs: import, with: {tool: onnxslim}}
  big: {uses: optimize/simplify, needs: import, resources: {memory: 900TB}}
"""


def test_what_a_run_would_refuse(orun: CommandLine, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`orun plan` said what to type, and that was refused then."""
    there = {name: text for name, text in distributions.list_exact().items() if name != "onnxslim"}
    monkeypatch.setattr(distributions, "list_exact", lambda: there)
    monkeypatch.setattr("orun.environment.physical_memory.measure_memory", lambda: 8 * 10**9)
    (project / "lacking.yaml").write_text(LACKING)
    (project / "model.onnx").touch()
    slim = "stage 'slim' (optimize/simplify) needs onnxslim for `tool: onnxslim`, which is not installed"
    big = "stage 'big' asks for 900 TB of memory, and this machine has 8 GB"
    free = "ask for less in its `resources`; to see what there is: free -h"
    shown = orun("plan", "lacking.yaml")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.partition("\n\n")[2] == (
        "4 of 4 stages to run\n"
        "warning: a run would refuse this:\n"
        f"  lacking.yaml:4:3: {slim}\n"
        f"    hint: {install_hint('slim')}\n"
        f"  lacking.yaml:5:3: {big}\n"
        f"    hint: {free}\n"
    )
    refused = json.loads(orun("plan", "lacking.yaml", "--json").out)["refused"]
    assert [(refusal["message"], refusal["position"]["line"], refusal["hint"]) for refusal in refused] == [
        (slim, 4, install_hint("slim")),
        (big, 5, free),
    ]
    assert orun("plan", "lacking.yaml", "--only", "write").out.endswith(
        "1 of 1 stage to run; to do so: orun lacking.yaml --only write\n"
    )
    assert json.loads(orun("plan", "lacking.yaml", "--only", "write", "--json").out)["refused"] == []
