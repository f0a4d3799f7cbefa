"""orun stages and orun schema."""

from __future__ import annotations

import json
from pathlib import Path

from orun.report import event_schema
from orun.stages.registry import BUILTIN

from .conftest import CommandLine

COMMITTED = Path(__file__).parents[2] / "schema" / "pipeline.schema.json"


def test_the_library_names_every_kind_with_a_sentence(orun: CommandLine) -> None:
    shown = orun("stages")
    assert (shown.code, shown.err) == (0, "")
    lines = [line.split(maxsplit=1) for line in shown.out.splitlines() if "/" in line.partition(" ")[0]]
    assert [name for name, _ in lines] == list(BUILTIN)
    assert all(text for _, text in lines)


def test_a_kind_is_documented(orun: CommandLine) -> None:
    shown = orun("stages", "quantize/dynamic")
    assert shown.code == 0
    assert shown.out.startswith("quantize/dynamic (built-in)\n\nStore weights in 8 bits")
    assert "\ninputs:\n  model: onnx\n        The model to quantize.\n" in shown.out
    assert "\n  per_channel: true or false; default false\n        One scale for each output channel" in shown.out
    assert shown.out.endswith("result holds for: this Python minor, system and architecture\n")


def test_a_function_of_ones_own(orun: CommandLine, project: Path) -> None:
    del project
    assert orun("stages", "./words.py:write").out == (
        """\
./words.py:write (file)

Write a text.

parameters:
  text: text; default one two three

output: files
metrics: length
result holds for: this Python minor, system and architecture
"""
    )


def test_metrics_say_how_a_gate_on_them_is_written(orun: CommandLine) -> None:
    lines = orun("stages", "measure/load").out.splitlines()
    assert lines[lines.index("output: metrics") + 1] == (
        "metrics: throughput (rate, higher is better); served (proportion, higher is better); p50, p90, p99, mean, max "
        "(time, lower is better); cpu_utilization, gpu_utilization (proportion); cpu_energy, gpu_energy (energy, lower "
        "is better)"
    )
    shown = json.loads(orun("stages", "measure/accuracy", "--json").out)
    assert shown["metrics"] is None  # its parameters choose
    assert shown["quantities"]["rmse"] == {"unit": "", "better": "lower", "least": 0.0}


def test_nested_parameters_have_dotted_names(orun: CommandLine) -> None:
    shown = json.loads(orun("stages", "convert/torch", "--json").out)
    params = {param["name"]: param for param in shown["params"]}
    inputs = [name for name in params if name.startswith("inputs")]
    assert inputs[:4] == ["inputs", "inputs.*.shape", "inputs.*.dtype", "inputs.*.low"]
    assert params["inputs.*.shape"]["required"] is True
    assert params["model"]["required"] is False  # a hub, a folder or weights may take its place
    assert shown["output"] == "onnx"


def test_every_kind_as_data(orun: CommandLine) -> None:
    assert [kind["name"] for kind in json.loads(orun("stages", "--json").out)] == list(BUILTIN)


def test_an_unknown_kind(orun: CommandLine) -> None:
    shown = orun("stages", "quantize/dynamik")
    assert (shown.code, shown.out) == (2, "")
    assert shown.err == (
        "error: there is no kind of stage 'quantize/dynamik'\n  did you mean quantize/dynamic?\n  hint: orun stages\n"
    )


def test_the_schema_is_the_committed_one(orun: CommandLine) -> None:
    shown = orun("schema")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out == COMMITTED.read_text(encoding="utf-8")


def test_the_schema_of_the_event_log(orun: CommandLine) -> None:
    shown = orun("schema", "--events")
    assert shown.code == 0
    assert json.loads(shown.out) == event_schema.build()
