"""Provenance of a stage: what a release hears of the gates before it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orun.core.component_kinds import ComponentKind
from orun.core.key_component import KeyComponent
from orun.core.reason import build_reason
from orun.core.reason_codes import ReasonCode
from orun.core.source_location import Position
from orun.core.source_model import SourceModel
from orun.core.verdict import Verdict
from orun.pipeline import load
from orun.pipeline.model import Pipeline, Stage
from orun.planning.plan import Done, Step
from orun.planning.provenance import Provenance, iter_source_components
from orun.store import ImplicitDependencies
from tests.store.support import action

PIPELINE = """
name: bert
stages:
  take: {uses: convert/onnx, with: {path: net.onnx}}
  release: {uses: release/bundle, needs: take}
"""


def project(folder: Path) -> Pipeline:
    (folder / "net.onnx").write_bytes(b"")
    (folder / "bert.yaml").write_text(PIPELINE)
    return load(folder / "bert.yaml")


def test_verdicts_have_sentences_and_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = project(tmp_path)
    take, release = pipeline.stages
    finding = build_reason(ReasonCode.NO_MACHINE, problem="no machine has a GPU")
    caveat = build_reason(ReasonCode.FITTED_DATA, parameters=[("dataset", "int8")])
    place = Position("bert.yaml", 4, 3)
    verdicts = [
        Verdict("take", "size", "max", "1kB", "passed", False, 1.0, "B", None, finding, place, caveats=limits)
        for limits in ((), (caveat, caveat))
    ]  # fmt: skip
    finished = Done(Step(take, "cached", ()), action(), tuple(verdicts))
    provenance = Provenance.of(pipeline, release, {"take": finished})
    assert provenance is not None
    plain, limited = json.loads(provenance.to_json())["stages"][0]["verdicts"]
    sentence = (
        "its data is the `dataset` of int8, by which the model was made: on other data it may be worse, so keep some"
        " for this"
    )
    assert plain["why"] == limited["why"] == "no machine has a GPU"
    assert limited["caveat"] == f"{sentence}; {sentence}"
    assert {"position", "caveat"}.isdisjoint(plain)
    before = list(provenance.iter_components())
    monkeypatch.setattr("orun.text.wording.findings.describe_finding", lambda _: "in other words")
    differ = [old.kind for old, new in zip(before, provenance.iter_components(), strict=True) if old != new]
    assert differ == [ComponentKind.VERDICTS]  # as in a clean build, the new words reach the release


def test_packages_that_a_stage_did_not_find_are_no_tools(tmp_path: Path) -> None:
    pipeline = project(tmp_path)
    take, release = pipeline.stages
    packages = {"accelerate": "not installed", "yaml-include": "installed", "numpy": "2.4.6"}
    finished = Done(Step(take, "cached", ()), action(implicit_deps=ImplicitDependencies(packages=packages)), ())
    provenance = Provenance.of(pipeline, release, {"take": finished})
    assert provenance is not None
    tools = json.loads(provenance.to_json())["stages"][0]["tools"]
    assert tools == {"yaml-include": "installed", "numpy": "2.4.6"}


def test_a_source_model_counts_by_all_that_its_convert_stage_used() -> None:
    """Code that computes the same in another way exports the same model."""
    place = Position("bert.yaml", 4, 3)
    export, source = Stage("export", "convert/torch", place), SourceModel("export", "torch", "torch", {})
    timed = Stage("latency", "measure/latency", place, sources={"reference": source, "reference.same": source})

    def component(code: str) -> KeyComponent:
        used = action(tree="1" * 64, implicit_deps=ImplicitDependencies(files={"helper.py": code}))
        (component,) = iter_source_components(timed, {"export": Done(Step(export, "cached", ()), used, ())})
        return component

    assert (component("one").kind, component("one").subject) == (ComponentKind.PROVENANCE, "export")
    assert component("one") == component("one")
    assert component("one") != component("two")
    assert list(iter_source_components(export, {})) == []
