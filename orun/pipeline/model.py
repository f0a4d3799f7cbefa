"""A validated, expanded pipeline as plain, frozen data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from orun.core.metrics import Unit
from orun.core.serialization import Record, field, replace
from orun.core.source_location import Position, Problem
from orun.core.source_model import SourceModel
from orun.core.targets import Environment, Target
from orun.core.unknown_key import UnknownKey
from orun.environment.secret_variables import Secrets
from orun.fs.observed_state import find_project
from orun.stages.contract import Spec

Rule = Literal["min", "max", "max_drop", "max_increase", "max_regression", "min_speedup"]
Undecided = Literal["allow", "block", "fail"]
RULES: tuple[Rule, ...] = get_args(Rule)


class Threshold(Record, frozen=True):
    """Limit of a gate: its value and its text.

    Attributes:
        value: in the metric's unit, or a proportion when `relative`.
        relative: whether it is written with `%`: a proportion of the other model's value.
        text: text in the file, for people.
        unit: unit in the file (`12ms` has s, `300MB` B, `5%` ratio, `1.5x` x, `90/s` 1/s); empty for a plain number,
            which has the metric's own unit.
    """

    value: float
    relative: bool
    text: str
    unit: Unit = ""


class Gate(Record, frozen=True):
    """Condition on a metric of a stage.

    Attributes:
        metric: name of the metric.
        rule: `min`/`max` are absolute; `max_drop`, `max_increase` and `min_speedup` are against the stage's
            `reference` input; `max_regression` is against the accepted baseline, in the metric's direction.
        threshold: the limit.
        undecided: effect of an undecided gate: `allow` later releases, `block` them (exit 4), or `fail` the run
            (exit 4) even without a release.
        position: its place in the file.
        against: name of a further reference (`reference.<name>`); empty for `reference` itself.
        by: field of the dataset, each value of which is judged by itself; empty for all examples together.
        strict: whether it fails the run (exit 4) without a baseline.
    """

    metric: str
    rule: Rule
    threshold: Threshold
    undecided: Undecided
    position: Position
    against: str = ""
    by: str = ""
    strict: bool = False

    def fits(self, unit: Unit) -> bool:
        """Return whether threshold and metric have the same unit: 300 MB would pass any time in seconds."""
        written = self.threshold.unit
        if not written or self.threshold.relative or self.rule == "min_speedup":
            return True
        return written == unit or (written == "ratio" and not unit)

    @property
    def scope(self) -> str:
        """Restriction for people: ` against fused by label`."""
        return (f" against {self.against}" if self.against else "") + (f" by {self.by}" if self.by else "")


class Group(Record, frozen=True):
    """Gates that are judged together: every one of them, or at least one, must pass.

    Attributes:
        rule: `all` or `any`.
        members: gates and groups in file order; at least one.
        position: its place in the file.
    """

    rule: Literal["all", "any"]
    members: tuple[Gate | Group, ...]
    position: Position

    @property
    def name(self) -> str:
        """Name in place of a metric: `any of 2`."""
        return f"{self.rule} of {len(self.members)}"


def iter_gates(gates: Iterable[Gate | Group]) -> Iterator[Gate]:
    """Yield every gate, including those in groups."""
    for gate in gates:
        if isinstance(gate, Group):
            yield from iter_gates(gate.members)
        else:
            yield gate


class Reference(Record, frozen=True):
    """File that a stage's parameters name; its content is in the key.

    Attributes:
        parameter: dotted name of the parameter (`inputs.ids.file`); `uses` for a custom stage.
        path: its path, relative to the pipeline's folder.
        function: function in a code file; empty for a plain path.
    """

    parameter: str
    path: str
    function: str = ""


class Stage(Record, frozen=True, dict=True):
    """One stage, ready to be planned.

    Attributes:
        id: its name in the file, with the axes of its matrix (`int8[per_channel=true]`).
        uses: its kind, as written.
        needs: the stage that feeds each connected input port.
        after: stages that must be good before it starts, without feeding it.
        guards: stages that judge what it releases, which must be good, too, unless they are skipped.
        params: every parameter, defaults included, as plain values (durations in seconds, sizes in bytes, ratios as
            proportions).
        references: the code and paths among the parameters.
        target: the resolved target that a parameter names, or None; the first when several do.
        extra_targets: targets that other parameters name, by the parameter.
        sources: source models of convert stages that it runs in place of what is at its inputs, by input.
        environment: the isolated environment that its process runs in, its own or that of its target; None for the
            packages that orun runs with.
        out_of_process: it runs the models of its targets in processes of their environments (see `Spec`).
        gates: its gates in file order.
        env: environment variables that are in its key; none of them is a secret.
        timeout: seconds it may run, or None.
        cpus: cores that it keeps busy while it runs.
        memory: bytes that are kept free for it, and above which it is stopped, or None.
        gpus: GPUs that it has to itself.
        runs_on: labels that its machine must have in a run on several machines; in no key.
        position: where the file defines it.
    """

    id: str
    uses: str
    position: Position
    needs: Mapping[str, str] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    references: tuple[Reference, ...] = ()
    target: Target | None = None
    extra_targets: Mapping[str, Target] = field(default_factory=dict)
    sources: Mapping[str, SourceModel] = field(default_factory=dict)
    environment: Environment | None = None
    out_of_process: bool = False
    gates: tuple[Gate | Group, ...] = ()
    env: tuple[str, ...] = ()
    timeout: float | None = None
    cpus: int = 1
    memory: int | None = None
    gpus: int = 0
    runs_on: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def targets(self) -> tuple[Target, ...]:
        """Targets that it names."""
        return ((self.target,) if self.target else ()) + tuple(self.extra_targets.values())

    @cached_property
    def environments(self) -> tuple[Environment, ...]:
        """Isolated environments that it needs, its own first, each once."""
        wanted = (self.environment, *map(self.choose_environment, self.targets))
        return tuple(dict.fromkeys(environment for environment in wanted if environment))

    def choose_environment(self, target: Target | None) -> Environment | None:
        """Return the environment in which a model runs on one of its targets."""
        return target.environment or self.environment if target and self.out_of_process else self.environment

    @cached_property
    def before(self) -> tuple[str, ...]:
        """Ids of the stages that are settled before this one."""
        return (*self.upstream, *self.guards)

    @cached_property
    def upstream(self) -> tuple[str, ...]:
        """Ids of the stages that must be good before this one, each once."""
        return tuple(dict.fromkeys((*self.needs.values(), *self.after)))


class KindUse(Record, frozen=True):
    """Facts about a kind for the planner, which does not import it.

    Attributes:
        origin: `built-in`, `plug-in` or `file`.
        entry: a module, or `path.py:function` relative to the pipeline's folder.
        spec: its declaration.
        distribution: package of a plug-in; else empty.
    """

    origin: Literal["built-in", "plug-in", "file"]
    entry: str
    spec: Spec
    distribution: str = ""


class Pipeline(Record, frozen=True, dict=True):
    """A validated, expanded pipeline file.

    Attributes:
        name: its `name`, or the file's stem.
        file: absolute path of the file.
        stages: in a topological order that keeps the file's where it can.
        seed: seed of every random choice.
        sources: absolute path and BLAKE3 digest of every file that was read to build it (the file, what it extends,
            code files looked into).
        kinds: each kind used, by `uses`.
        overrides: the `--set` values that replaced values of the file.
        strict: whether a gate that is not judged, because its stage is skipped, fails the run.
        notes: what is probably a mistake in the file, such as what it declares and nothing uses.
        secrets: environment variables that it lists under `secrets`.
        ship: files and folders that git ignores and that other machines need, relative to the pipeline's folder.
        run_suffix: end of the ids of its runs, after its name; empty for runs of the user.
    """

    name: str
    file: Path
    stages: tuple[Stage, ...]
    seed: int
    sources: Mapping[str, str]
    kinds: Mapping[str, KindUse] = field(default_factory=dict)
    overrides: Mapping[str, str] = field(default_factory=dict)
    strict: bool = False
    notes: tuple[Problem, ...] = ()
    secrets: tuple[str, ...] = ()
    ship: tuple[str, ...] = ()
    run_suffix: str = ""

    def __repr__(self) -> str:
        return f"Pipeline({self.name!r}, stages={len(self.stages)}, file={str(self.file)!r})"

    @cached_property
    def root(self) -> Path:
        """Folder that code and paths are relative to."""
        return self.file.parent

    @cached_property
    def project(self) -> Path:
        """Top folder of the user's own code."""
        return find_project(self.root)

    @cached_property
    def private(self) -> Secrets:
        """Environment variables whose values are never recorded."""
        settings = (name for stage in self.stages for name in stage.env)
        return Secrets(frozenset(self.secrets), frozenset(settings))

    def stage(self, name: str) -> Stage:
        """Return a stage by its id; raise UnknownKey, a KeyError, for an unknown one."""
        for stage in self.stages:
            if stage.id == name:
                return stage
        raise UnknownKey(f"pipeline {self.name}", "stage", name, [stage.id for stage in self.stages])

    def to_strict(self) -> Pipeline:
        """Return a copy in which every gate must pass: any other verdict, or none, fails the run."""
        stages = tuple(replace(stage, gates=tuple(map(_to_strict, stage.gates))) for stage in self.stages)
        return replace(self, stages=stages, strict=True)


def _to_strict(gate: Gate | Group) -> Gate | Group:
    if isinstance(gate, Group):
        return replace(gate, members=tuple(map(_to_strict, gate.members)))
    return replace(gate, undecided="fail", strict=True)
