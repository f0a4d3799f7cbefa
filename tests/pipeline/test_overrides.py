from __future__ import annotations

from pathlib import Path

import pytest

from orun.core.source_location import Position
from orun.pipeline import overrides
from orun.pipeline.model import iter_gates
from orun.pipeline.schema import build
from tests.pipeline.support import EXPORT, complaint, loaded

TEXT = f"""\
vars: {{samples: 10, deep: {{x: 1}}}}
targets:
  cpu: {{providers: [CPUExecutionProvider]}}
stages:
{EXPORT}\
  int8: {{uses: quantize/dynamic, needs: export}}
  latency: {{uses: measure/latency, needs: int8, with: {{samples: "${{vars.samples}}"}}}}
"""


@pytest.mark.parametrize(
    ("path", "value", "stage", "parameter", "expected"),
    [
        ("vars.samples", "64", "latency", "samples", 64),
        ("vars.samples", "1e2", "latency", "samples", 100),
        ("stages.int8.with.per_channel", "true", "int8", "per_channel", True),
        ("stages.int8.with.op_types", "[MatMul, Conv]", "int8", "op_types", ["MatMul", "Conv"]),
        ("stages.int8.with.op_types", "", "int8", "op_types", None),
        ("stages.int8.with", "{weight_type: uint8}", "int8", "weight_type", "uint8"),
        ("stages.latency.with.time", "12 ms", "latency", "time", 0.012),
    ],
)
def test_values_are_yaml(path: str, value: str, stage: str, parameter: str, expected: object, tmp_path: Path) -> None:
    assert loaded(tmp_path, TEXT, {path: value}).stage(stage).params[parameter] == expected


def test_several_values_are_set_in_turn(tmp_path: Path) -> None:
    pipeline = loaded(tmp_path, TEXT, {"vars.samples": "20", "seed": "3", "name": "other", "vars.deep.y": "1"})
    assert (pipeline.stage("latency").params["samples"], pipeline.seed, pipeline.name) == (20, 3, "other")


def test_a_threshold_of_a_metric_with_dots_is_set(tmp_path: Path) -> None:
    text = (
        f"{TEXT}  accuracy:\n    uses: measure/accuracy\n    needs: {{model: int8, reference: int8}}\n"
        "    with: {dataset: code.py:pairs, metrics: [cosine]}\n"
    )
    pipeline = loaded(tmp_path, text, {"stages.accuracy.gate.cosine.min.min": "0.97"})
    (gate,) = iter_gates(pipeline.stage("accuracy").gates)
    assert (gate.metric, gate.rule, gate.threshold.value) == ("cosine.min", "min", 0.97)
    assert gate.position == Position("--set", 1, 33)


def test_a_configuration_entry_with_dots_is_set(tmp_path: Path) -> None:
    text = TEXT.replace('samples: "${vars.samples}"', "target: cpu")
    pipeline = loaded(tmp_path, text, {"targets.cpu.session.session.intra_op.allow_spinning": "0"})
    target = pipeline.stage("latency").target
    assert target is not None
    assert target.session == {"session.intra_op.allow_spinning": "0"}


def test_a_path_through_a_scalar_is_refused(tmp_path: Path) -> None:
    assert complaint(tmp_path, TEXT, {"stages.int8.needs.model": "export"}) == (
        "--set: error: stages.int8.needs is 'export', which has no key 'model'\n"
        "      | stages.int8.needs.model=export\n"
        "      |                   ^^^^^\n"
        "  expected: the whole value: --set stages.int8.needs=..."
    )


@pytest.mark.parametrize("control", ["\x1b", "\0", "\udcff"])
def test_a_control_character_is_refused(tmp_path: Path, control: str) -> None:
    assert complaint(tmp_path, TEXT, {"vars.samples": f"a{control}b"}) == (
        f"--set: error: the value of 'vars.samples' holds the control character {control!r}"
    )


def test_a_key_that_stands_in_the_file_alone_is_refused(tmp_path: Path) -> None:
    assert complaint(tmp_path, TEXT, {"ship": "[weights.bin]"}) == (
        "--set: error: 'ship' stands in the file alone\n"
        "      | ship=[weights.bin]\n"
        "      | ^^^^\n"
        "  expected: one of name, vars, seed, targets, stages\n"
        "  hint: write it there: ship: ..."
    )


def test_each_key_is_of_the_command_line_or_of_the_file() -> None:
    assert {*overrides.TOP, *overrides.IN_THE_FILE} == {*build()["properties"]}


def test_a_stage_with_a_matrix_is_set_by_its_name_in_the_file(tmp_path: Path) -> None:
    text = TEXT.replace("needs: export}", "needs: export, matrix: {per_channel: [true, false]}}")
    pipeline = loaded(tmp_path, text, {"stages.int8.matrix.per_channel": "[false]"})
    assert [stage.id for stage in pipeline.stages] == [
        "export",
        "int8[per_channel=false]",
        "latency[per_channel=false]",
    ]
