"""Differences between two runs: request, dependencies, results, measurements, gates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from orun.core.component_kinds import SEEN
from orun.core.key_component import Components
from orun.core.metrics import Metric, Unit
from orun.core.run_record import Outcome, RunResult, StageResult
from orun.core.serialization import replace
from orun.core.verdict import Unjudged, Verdict


@dataclass(frozen=True)
class Change:
    """Named text in the old and the new run; None where there is none."""

    name: str
    old: str | None
    new: str | None


@dataclass(frozen=True)
class ComponentChange:
    """Component of a key in the old and the new run; the value is None where there is none."""

    kind: str
    subject: str
    owner: str
    old: str | None
    new: str | None


@dataclass(frozen=True)
class Figure:
    """Metric in the old and the new run, and the new value divided by the old; None where there is none."""

    name: str
    unit: Unit
    old: float | None
    new: float | None
    ratio: float | None


@dataclass(frozen=True)
class StageDifference:
    """Difference of a stage between two runs.

    Attributes:
        stage: its id.
        outcome, key, tree: in the old and the new run; None where there is none.
        size: bytes of its artifact, in the old and the new run.
        inputs: components of its key and implicit dependencies that differ.
        metrics: those that differ.
    """

    stage: str
    outcome: tuple[Outcome | None, Outcome | None]
    key: tuple[str | None, str | None]
    tree: tuple[str | None, str | None]
    size: tuple[int | None, int | None]
    inputs: tuple[ComponentChange, ...]
    metrics: tuple[Figure, ...]

    @property
    def ended_differently(self) -> bool:
        """Whether the outcomes differ by more than built and cached."""
        return len({"built" if outcome == "cached" else outcome for outcome in self.outcome}) > 1


@dataclass(frozen=True)
class Origin:
    """Source of a run: its commit and the version of orun.

    Attributes:
        commit: git's commit around the pipeline file; None without git, or if it is unknown.
        edited: files that differed from that commit; None if unknown.
        orun: version of orun; None if unknown.
    """

    commit: str | None
    edited: tuple[str, ...] | None
    orun: str | None


@dataclass(frozen=True)
class RunDifference:
    """Difference between two runs.

    Attributes:
        old, new: their ids.
        origins: the commits, edited files and versions of orun of both, whether they differ or not.
        configuration: the pipeline, its file, `--set` values, and digests of the files that the pipeline was read from.
        host: the machine, and the facts that bind its measurements.
        stages: stages that differ, in the order of the new run, then those that only the old run has.
        gates: verdicts that differ, by the title of the gate.
        notes: sentences on what cannot be compared.
    """

    old: str
    new: str
    origins: tuple[Origin, Origin]
    configuration: tuple[Change, ...]
    host: tuple[Change, ...]
    stages: tuple[StageDifference, ...]
    gates: tuple[Change, ...]
    notes: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether nothing differs except perhaps the commits."""
        return not (self.configuration or self.host or self.stages or self.gates)


def compare(old: RunResult, new: RunResult) -> RunDifference:
    """Return the differences between two runs. A stage that was built in one and cached in the other is equal."""
    befores, afters = ({stage.stage: stage for stage in run.stages} for run in (old, new))
    notes = [
        f"the dependencies of the stages of {run.run} are not known: it repeats {run.repeats}, which is not stored"
        for run in (old, new)
        if run.repeats
    ]
    failed = [
        f"{name} failed in one of the runs, so what it read is not compared, only what it declares"
        for name, after in afters.items()
        if (before := befores.get(name)) and _list_comparable(before, after) != (before.inputs, after.inputs)
    ]
    return RunDifference(
        old.run,
        new.run,
        (_build_origin(old), _build_origin(new)),
        configuration=tuple(_list_changes(_list_configuration(old), _list_configuration(new))),
        host=tuple(_list_changes(old.host, new.host)),
        stages=tuple(_compare_stages(befores, afters, inputs=not notes)),
        gates=tuple(_list_changes(_list_gates(old), _list_gates(new))),
        notes=(*notes, *failed),
    )


def fill_inputs(run: RunResult, repeated: RunResult) -> RunResult:
    """Return a run with the inputs of the run that it repeats, if that is another one; its commit may differ."""
    if repeated.run == run.run:
        return run
    inputs = {stage.stage: stage.inputs for stage in repeated.stages}
    stages = tuple(replace(stage, inputs=inputs.get(stage.stage, ())) for stage in run.stages)
    return replace(run, stages=stages, orun=repeated.orun, repeats="")


def _build_origin(run: RunResult) -> Origin:
    return Origin(run.commit or None, run.edited, run.orun or None)


def _list_configuration(run: RunResult) -> dict[str, str]:
    return {
        "pipeline": run.pipeline,
        "file": run.file,
        **{f"--set {name}": value for name, value in run.overrides.items()},
        **{f"content of {path}": digest for path, digest in run.sources.items()},
    }


def _list_gates(run: RunResult) -> dict[str, str]:
    """Return how each gate was judged, with its threshold, which may differ too."""
    counts: dict[str, int] = {}
    gates: dict[str, str] = {}
    judged: list[tuple[Verdict | Unjudged, str]] = [(verdict, verdict.outcome) for verdict in run.verdicts]
    judged += [(gate, "not judged") for stage in run.stages for gate in stage.unjudged]
    for gate, outcome in judged:
        name = " ".join(part for part in (gate.stage, gate.metric, gate.rule) if part) + gate.scope
        counts[name] = counts.get(name, 0) + 1
        name = f"{name} ({counts[name]})" if counts[name] > 1 else name
        gates[name] = f"{gate.threshold}: {outcome}" if gate.threshold else outcome
    return gates


def _list_changes(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Change]:
    for name in dict.fromkeys([*new, *old]):
        if old.get(name) != new.get(name):
            yield Change(name, old.get(name), new.get(name))


def _list_component_changes(old: Components, new: Components) -> Iterator[ComponentChange]:
    before, after = ({item.identity: item.value for item in components} for components in (old, new))
    for identity in dict.fromkeys([*after, *before]):
        if before.get(identity) != after.get(identity):
            yield ComponentChange(*identity, before.get(identity), after.get(identity))


def _compare_stages(
    old: Mapping[str, StageResult], new: Mapping[str, StageResult], *, inputs: bool
) -> Iterator[StageDifference]:
    for name in dict.fromkeys([*new, *old]):
        pair = old.get(name), new.get(name)
        before, after = pair
        known = before is None or after is None or bool(before.inputs and after.inputs)  # a blocked stage has no inputs
        components = _list_comparable(before, after)
        difference = StageDifference(
            name,
            outcome=(before.outcome if before else None, after.outcome if after else None),
            key=(before.key or None if before else None, after.key or None if after else None),
            tree=(before.tree or None if before else None, after.tree or None if after else None),
            size=(before.size if before and before.tree else None, after.size if after and after.tree else None),
            inputs=tuple(_list_component_changes(*components)) if inputs and known else (),
            metrics=tuple(_compare_figures(*(stage.metrics if stage else {} for stage in pair))),
        )
        if _differs(difference):
            yield difference


def _list_comparable(old: StageResult | None, new: StageResult | None) -> tuple[Components, Components]:
    """Return the components of a stage in both runs, without what it read if it failed in one: that is not recorded."""
    before, after = (stage.inputs if stage else () for stage in (old, new))
    if before and after and "failed" in {stage.outcome for stage in (old, new) if stage}:
        before, after = (tuple(item for item in items if item.kind not in SEEN) for items in (before, after))
    return before, after


def _differs(stage: StageDifference) -> bool:
    pairs = (stage.key, stage.tree, stage.size)
    return stage.ended_differently or any(old != new for old, new in pairs) or bool(stage.inputs or stage.metrics)


def _compare_figures(old: Mapping[str, Metric], new: Mapping[str, Metric]) -> Iterator[Figure]:
    for name in dict.fromkeys([*new, *old]):
        before, after = old.get(name), new.get(name)
        values = before.value if before else None, after.value if after else None
        if values[0] != values[1] and (metric := after or before):
            ratio = values[1] / values[0] if values[0] and values[1] is not None else None
            yield Figure(name, metric.unit, *values, ratio)
