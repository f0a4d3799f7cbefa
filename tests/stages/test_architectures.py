"""Every architecture of `benchmarks/families.py` in the stages of a release: each works, or says what to do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.architectures import STAGES
from benchmarks.families import FAMILIES
from orun.errors import StageFailed
from tests.stages.conftest import Exports
from tests.stages.support import StageRun, run_stage

SLOW = ("deberta_v2", "gemma2", "swin")  # of a small BERT each stage is quick, in the tests of its kind
KINDS = {
    "simplify": "optimize/simplify",
    "fuse": "optimize/transformer",
    "float16": "optimize/float16",
    "dynamic int8": "quantize/dynamic",
    "static int8": "quantize/static",
}
MAY_REFUSE = {"float16", "static int8"}  # where a model is not exact enough in few bits


def families() -> list[Any]:
    """Return all families. Those that are not slow are rows of the table in docs/benchmarks.md."""
    marks = {True: pytest.mark.slow, False: pytest.mark.table}
    return [pytest.param(family, marks=marks[family in SLOW]) for family in FAMILIES]


@pytest.mark.parametrize("family", families())
def test_every_stage_works_or_says_what_to_do(tmp_path: Path, exports: Exports, family: str) -> None:
    result: dict[str, StageRun | StageFailed] = {}
    for name, _, before, params in STAGES:
        source = result.get(before)
        if not isinstance(source, StageFailed):
            model = exports(family) if source is None else source.output
            result[name] = attempt(tmp_path, KINDS[name], model, {**params, "dims": FAMILIES[family].dims})
    refusals = {name: failure for name, failure in result.items() if isinstance(failure, StageFailed)}
    assert refusals.keys() <= MAY_REFUSE, refusals
    assert all(failure.hint for failure in refusals.values())
    fused = result["fuse"]
    assert isinstance(fused, StageRun)
    assert (fused.value("attentions"), fused.value("attentions_left")) == (FAMILIES[family].attentions, 0)
    assert fused.notes == ()


def attempt(folder: Path, kind: str, model: Path, params: Mapping[str, Any]) -> StageRun | StageFailed:
    """Return the result of a stage, or its error."""
    try:
        return run_stage(kind, folder, params, inputs={"model": model})
    except StageFailed as failure:
        return failure


@pytest.mark.table
@pytest.mark.parametrize("family", ["deberta_v2", "gemma2", "bloom", "swin"])
def test_the_other_exporter(tmp_path: Path, exports: Exports, family: str) -> None:
    result = run_stage("optimize/transformer", tmp_path, inputs={"model": exports(family, "dynamo")})
    assert (result.value("attentions"), result.value("attentions_left")) == (FAMILIES[family].attentions, 0)
