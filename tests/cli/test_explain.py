"""orun explain."""

from __future__ import annotations

import json
import re
from pathlib import Path

from orun.cli.explain import format_step
from orun.core.source_location import Position
from orun.pipeline.model import Stage
from orun.planning.plan import Step
from orun.report.terminal import Terminal
from tests.facts import components, reasons_of

from .conftest import CODE, CommandLine

INT8 = Stage("int8", "quantize/dynamic", Position("bert.yaml", 20, 3))
OLD = components(
    {"kind": "quantize/dynamic", "parameter per_channel": "true", "input model": "1" * 64, "tool onnx": "onnx 1.23.1"}
)
NEW = components({"kind": "quantize/dynamic", "parameter per_channel": "false", "input model": "1" * 64, "seed": "0"})


def test_changed_components_come_first_and_are_marked() -> None:
    step = Step(
        INT8, "run", reasons_of("parameter per_channel: true -> false", "tool onnx is gone"), 3.0, "a" * 64, NEW, OLD
    )
    assert "\n".join(format_step(step, Terminal())) == (
        f"""\
int8 (quantize/dynamic) would run
  parameter per_channel: true -> false
  tool onnx is gone

   key component          last time         now
*  parameter per_channel  true              false
*  seed                   -                 0
*  tool onnx              onnx 1.23.1       -
   kind                   quantize/dynamic  quantize/dynamic
   input model            111111111111      111111111111

key {"a" * 64}"""
    )


def test_digests_in_full() -> None:
    step = Step(INT8, "run", reasons_of("never run before"), None, "a" * 64, components({"input model": "1" * 64}))
    assert format_step(step, Terminal(), full=True)[3:5] == ["key component  now", f"input model    {'1' * 64}"]


def test_a_stage_that_is_up_to_date() -> None:
    step = Step(INT8, "cached", reasons_of("up to date"), 3.0, "a" * 64, OLD, OLD)
    assert format_step(step, Terminal())[:3] == [
        "int8 (quantize/dynamic) is up to date",
        "",
        "key component          last time         now",
    ]


def test_a_stored_result_for_other_values_than_the_last() -> None:
    step = Step(INT8, "cached", reasons_of("up to date"), 3.0, "a" * 64, NEW, OLD)
    assert format_step(step, Terminal())[:3] == [
        "int8 (quantize/dynamic) is up to date",
        "  since the last time what is marked has changed, and a result for it was stored before",
        "",
    ]


def test_inputs_that_are_not_made_yet() -> None:
    step = Step(INT8, "maybe", reasons_of("after fuse"), 3.0, "", components({"seed": "0"}), components({"seed": "0"}))
    lines = format_step(step, Terminal())
    assert (lines[0], lines[-1]) == (
        "int8 (quantize/dynamic) may run",
        "key not known before its inputs are made",
    )


def test_a_real_change(orun: CommandLine, project: Path) -> None:
    del project
    orun("words.yaml")
    shown = orun("explain", "words.yaml", "write", "--set", "stages.write.with.text=one")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith(
        """\
write (./words.py:write) would run
  parameter text: "one two three" -> "one"

   key component        last time        now
*  parameter text       "one two three"  "one"
"""
    )
    document = json.loads(orun("explain", "words.yaml", "write", "--json").out)
    assert (document["stage"], document["action"], document["reasons"]) == ("write", "cached", ["up to date"])
    assert document["parts"] == document["previous"]
    assert document["causes"] == [{"code": "up-to-date"}]
    text = {"kind": "parameter", "subject": "text", "owner": "", "old": '"one two three"', "new": '"one two three"'}
    assert text in document["components"]


def test_a_matrix_is_several_stages(orun: CommandLine, project: Path) -> None:
    (project / "matrix.yaml").write_text(
        "stages: {write: {uses: ./words.py:write, matrix: {t: [a, b]}, with: {text: '${matrix.t}'}}}\n"
    )
    shown = orun("explain", "matrix.yaml", "write", "--set", "seed=1", "--store", "other")
    assert (shown.code, shown.out) == (2, "")
    assert shown.err == (
        "error: write is 2 stages, one for each value of its matrix\n"
        "  write[t=a]\n"
        "  write[t=b]\n"
        f"  hint: orun explain {project}/matrix.yaml 'write[t=a]' --set seed=1 --store other\n"
    )


def test_what_it_was_seen_to_use_is_laid_side_by_side() -> None:
    read = {
        "read helper.py": ("2" * 64, "2" * 64),
        "imported numpy": ("2.4.5", "2.4.6"),
        "read data.txt": ("", "3" * 64),
    }
    used = tuple(components({name: pair[side] for name, pair in read.items()}) for side in (0, 1))
    step = Step(INT8, "run", reasons_of("..."), 3.0, "a" * 64, OLD, OLD, used=(used[0], used[1]))
    lines = format_step(step, Terminal())
    assert "\n".join(lines[lines.index("") + 6 :]) == (
        f"""\

   seen to use     last time     now
*  imported numpy  2.4.5         2.4.6
*  read data.txt   not there     333333333333
   read helper.py  222222222222  222222222222

key {"a" * 64}"""
    )


def test_a_helper_that_was_edited_is_marked(orun: CommandLine, project: Path) -> None:
    (project / "helper.py").write_text("MARK = '!'\n")
    (project / "words.py").write_text(CODE.replace("import time\n", "import time\n\nimport helper\n"))
    orun("words.yaml")
    shown = orun("explain", "words.yaml", "write")
    assert "write (./words.py:write) is up to date" in shown.out
    assert re.search(r"^ *read helper\.py +(\w{12}) +\1$", shown.out, re.MULTILINE)
    (project / "helper.py").write_text("MARK = '?'\n")
    shown = orun("explain", "words.yaml", "write")
    assert shown.out.startswith("write (./words.py:write) would run\n  helper.py changed (read by the stage)\n")
    assert re.search(r"^\* +read helper\.py +\w{12} +\w{12}$", shown.out, re.MULTILINE)
    then, now = json.loads(orun("explain", "words.yaml", "write", "--json").out)["read"]["read helper.py"]
    assert then != now
