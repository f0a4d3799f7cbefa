"""Machines that can run a stage, and the part of their facts in the validity of its results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orun.core.component_kinds import ComponentKind
from orun.core.key_component import KeyComponent
from orun.core.machines import Machine, MachineFacts, StageFacts
from orun.core.reason import build_reason
from orun.core.reason_codes import ReasonCode
from orun.core.serialization import replace
from orun.core.source_location import Position
from orun.core.targets import Environment
from orun.environment.secret_variables import SECRET
from orun.fs.observed_state import digest_value
from orun.pipeline.model import KindUse, Pipeline, Stage
from orun.planning.assignment import AgentFacts, Assignment
from orun.planning.implicit_deps import list_changes
from orun.stages.contract import Spec
from orun.store import ImplicitDependencies, Store

T4 = {"accelerator": "T4"}


def make_pipeline(folder: Path, spec: Spec = Spec(), **changes: Any) -> Pipeline:  # noqa: B008 - it is frozen
    stage = Stage("s", "kind", Position("p.yaml", 1, 1), **changes)
    return Pipeline("p", folder / "p.yaml", (stage,), 0, {}, {"kind": KindUse("built-in", "kind", spec)})


def assign(pipeline: Pipeline, *machines: Machine, **facts: StageFacts) -> Assignment:
    """An assignment of machines, each with its facts about the stage by the machine's id."""
    assignment = Assignment(pipeline)
    known = [MachineFacts(machine.id, (facts.get(machine.id, StageFacts()),), {"s": 0}) for machine in machines]
    assignment.update(machines, known)
    return assignment


def classes(assignment: Assignment, pipeline: Pipeline, *, writes: bool = False) -> list[list[str]]:
    kinds = assignment.find_candidates(pipeline.stages[0], writes=writes)
    return [[facts.machine for facts in group] for group in kinds.classes]


def driver(version: str) -> StageFacts:
    return StageFacts((KeyComponent(ComponentKind.DEVICE, "gpu driver_version", value=version),))


def test_machines_with_equal_facts_are_one_class(tmp_path: Path) -> None:
    pipeline = make_pipeline(tmp_path)
    machines = (Machine("a"), Machine("b"), Machine("c"))
    assignment = assign(pipeline, *machines, a=driver("580.1"), b=driver("581.0"), c=driver("580.1"))
    assert classes(assignment, pipeline) == [["a", "c"], ["b"]]
    assignment.remove("a")
    assert classes(assignment, pipeline) == [["b"], ["c"]]


def test_a_machine_that_is_barred_does_not_come_back(tmp_path: Path) -> None:
    pipeline = make_pipeline(tmp_path)
    machines = (Machine("a"), Machine("b"))
    facts = [MachineFacts(machine.id, (StageFacts(),), {"s": 0}) for machine in machines]
    assignment = assign(pipeline, *machines)
    assignment.bar("a")
    assignment.update(machines, facts)
    assignment.add(machines[0], facts[0])
    assert classes(assignment, pipeline) == [["b"]]


def test_a_machine_without_the_project_takes_no_part(tmp_path: Path) -> None:
    pipeline = make_pipeline(tmp_path)
    machines = (Machine("a"), Machine("b"))
    assignment = assign(pipeline, *machines)
    assignment.update(machines, [MachineFacts("a", problem="a did not get the project"), MachineFacts("b")])
    assert assignment.left_out == ("machine a takes no part: a did not get the project",)
    assert list(assignment.machines) == ["b"]


def test_stages_with_equal_facts_share_them() -> None:
    stages = {"a": driver("580.1"), "b": driver("581.0"), "c": driver("580.1")}
    facts = MachineFacts.collect("m", stages, {}, {})
    assert facts.facts == (driver("580.1"), driver("581.0"))
    assert {name: facts.find_facts(name) for name in "abc"} == stages
    assert facts.find_facts("unknown") == StageFacts()


def test_labels_choose_the_machines(tmp_path: Path) -> None:
    pipeline = make_pipeline(tmp_path, runs_on={**T4, "role": "bench"})
    machines = [Machine("a", T4), Machine("b", {**T4, "role": "bench"}), Machine("c", {"role": "bench"}), Machine("d")]
    assert classes(assign(pipeline, *machines), pipeline) == [["b"]]
    problem = assign(pipeline, machines[0], *machines[2:]).find_candidates(pipeline.stages[0]).problem
    here = "T4, no role, no accelerator, bench, no accelerator, no role"
    assert problem == f"no machine has accelerator=T4 and role=bench (3 are here: {here})"
    assert assign(pipeline).find_candidates(pipeline.stages[0]).problem == (
        "no machine has accelerator=T4 and role=bench (no machine is here)"
    )


def test_a_misspelt_label_is_suggested(tmp_path: Path) -> None:
    pipeline = make_pipeline(tmp_path, runs_on={"rol": "builder"})
    machines = Machine("a", {"role": "builder"}), Machine("b", T4)
    assert assign(pipeline, *machines).find_candidates(pipeline.stages[0]).problem == (
        "no machine has rol=builder (2 are here: no rol x2; did you mean 'role'?)"
    )


def test_a_stage_for_any_machine_lacks_one_if_none_is_there(tmp_path: Path) -> None:
    pipeline = make_pipeline(tmp_path)
    assert assign(pipeline).find_candidates(pipeline.stages[0]).problem == "no machine is here"


def test_a_machine_that_lacks_something_is_no_candidate(tmp_path: Path) -> None:
    pipeline = make_pipeline(tmp_path)
    lacks = StageFacts(missing=("it needs onnx",))
    assert classes(assign(pipeline, Machine("a"), Machine("b"), a=lacks), pipeline) == [["b"]]
    assert assign(pipeline, Machine("a"), a=lacks).find_candidates(pipeline.stages[0]).problem == (
        "no machine can run it: a: it needs onnx"
    )


def test_a_stage_is_skipped_if_every_machine_would_skip_it(tmp_path: Path) -> None:
    pipeline = make_pipeline(tmp_path)
    why = build_reason(ReasonCode.PROVIDER_MISSING, target="trt", problem="none")
    skips = StageFacts(missing=("none",), skipped=why)
    assert assign(pipeline, Machine("a"), a=skips).find_candidates(pipeline.stages[0]).skipped == why
    assert assign(pipeline, Machine("a"), Machine("b"), a=skips).find_candidates(pipeline.stages[0]).skipped is None


@pytest.mark.parametrize(
    ("spec", "changes", "writes"),
    [
        (Spec(releases=True), {}, False),
        (Spec(provenance=True), {}, False),
        (Spec(), {"environment": Environment("old", ("onnx==1.0",))}, False),
        (Spec(), {}, True),
    ],
    ids=["release", "provenance", "environment", "undeclared write"],
)
def test_stages_that_stay_on_this_machine(tmp_path: Path, spec: Spec, changes: dict[str, Any], *, writes: bool) -> None:
    pipeline = make_pipeline(tmp_path, spec, **changes)
    assert classes(assign(pipeline, Machine("a")), pipeline, writes=writes) == [[""]]
    wanted = make_pipeline(tmp_path, spec, **changes, runs_on=T4)
    candidates = assign(wanted, Machine("a", T4)).find_candidates(wanted.stages[0], writes=writes)
    assert candidates.problem.startswith("it runs on this machine, which has no accelerator=T4: ")


def test_implicit_dependencies_are_those_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARK", "here")
    pipeline = make_pipeline(tmp_path)
    (tmp_path / "data.txt").write_text("data")
    files = Store.open(tmp_path / "store").files
    seen = ImplicitDependencies(
        files={"data.txt": files.digest_file(tmp_path / "data.txt"), "/opt/there/x": "1" * 64},
        packages={"numpy": "2.1"},
        environment={"MARK": digest_value("MARK", "there"), "API_TOKEN": SECRET, "UNSET": digest_value("UNSET", None)},
    )
    record = MachineFacts("a", packages={"numpy": "2.1"}, variables={"MARK": digest_value("MARK", "there")})

    def differing(record: MachineFacts) -> list[str]:
        now = AgentFacts(pipeline, record).observe_state(pipeline.stages[0], seen, files)
        return [str(change.arguments["subject"]) for change in list_changes(seen, now)]

    assert differing(record) == []
    assert differing(replace(record, packages={"numpy": "2.2"})) == ["numpy"]
    assert differing(replace(record, variables={})) == ["MARK"]
    (tmp_path / "data.txt").write_text("edited")
    assert differing(record) == ["data.txt"]
