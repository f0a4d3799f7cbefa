"""Contract of a stage kind: the parts of its module, and the context of a running stage.

A built-in kind is a module `orun/stages/<folder>/<file>.py` with

    Params    a frozen dataclass (see `params.py`)
    SPEC      a `Spec`
    run       run(context: Context, params: Params) -> Mapping[str, Metric | float]
    metrics   optional, if the names depend on parameters: metrics(params: Params) -> Collection[str]
    packages  optional, if some parameters need further packages:
              packages(params: Params, root: Path) -> Mapping[str, str], the reason for each package
    source    for kinds with `Spec.runtimes`: opens the model that it converts, in a process that runs nothing else:
              source(context: Context, params: Params, runtime: str, threads: int | None) -> FrameworkModel

The docstring of the module is the user's documentation. The module imports nothing heavy: `run` does.
A plug-in package offers such a module under the entry point group `orun.stages`.
A user's function (`uses: ./file.py:function`) is declared by the decorator `stage`, and its file is read without being
run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from orun.core.metrics import Quantity
from orun.core.serialization import Record, field
from orun.core.source_model import SourceModel
from orun.core.targets import StageClass, Target
from orun.errors import StageFailed
from orun.stages.params import Code

if TYPE_CHECKING:
    import logging

Artifact = Literal["onnx", "metrics", "engine", "dataset", "bundle", "files"]

MODEL = "model.onnx"  # name of the proto in an `onnx` artifact; external data is next to it


class Port(Record, frozen=True):
    """Input port of a kind.

    Attributes:
        accepts: the artifact types that may be connected.
        doc: its purpose in one sentence.
        optional: whether it may be left out.
        many: whether further inputs may be connected, as `<port>.<name>`.
        needed_for: for an optional port, the values that require it, by the list parameter that holds them.
        metrics: names of metrics that exist only if it is connected.
        runtime: the parameter that says what runs the models at this port: ONNX Runtime, or the framework that a model
            was converted from.
    """

    accepts: tuple[Artifact, ...]
    doc: str
    optional: bool = False
    many: bool = False
    needed_for: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    metrics: tuple[str, ...] = ()
    runtime: str = ""


class Needed(Record, frozen=True):
    """Need for a parameter that may be left out otherwise.

    Attributes:
        by: the values that need it, by the parameter that holds them, also as its default; all if none is listed.
        expected: what it should be then.
    """

    by: Mapping[str, tuple[str, ...]]
    expected: str


class Spec(Record, frozen=True):
    """Declaration of a kind: inputs, output, tools, and what its result depends on.

    Attributes:
        inputs: input ports by name; the first is the primary one (`needs: stage`).
        output: the type of its artifact.
        tools: distributions whose versions are in the key, by their names on the package index; alternatives that
            exclude one another are joined by `|` (`onnxruntime|onnxruntime-gpu`).
        extra: the extra of orun that installs the tools.
        stage_class: what its result is bound to.
        interface: `same` if an `onnx` output must have the inputs and outputs of the primary input.
        deterministic: whether equal inputs yield equal bytes. If they do not, the first result is kept, with a warning
            unless this is False.
        exclusive: whether it needs the machine to itself, as measurements of time do.
        out_of_process: whether it runs models in separate processes in the environments of their targets. Its own
            process, with the user's code, then need not be in the environment of its target.
        cpus: number of cores that it uses.
        preload: modules that its process imports before the stage starts, shared with other stages.
        baseline: whether it measures the accepted baseline model too: the planner connects an extra input `baseline`
            when a gate has `max_regression`.
        provenance: whether it gets `provenance.json`: every stage before it, and those that guard it, with parameters,
            tools, digests, metrics and verdicts.
        builds_with: kinds of the library that it runs itself; their code counts for its result like its own.
        calibration_params: parameters with data that the result is calibrated with or chosen by.
        guards: whether it fails without a gate when its input is not good enough; releases of that input wait for it.
        releases: whether its result is published, so that it waits for the stages that judge it (see
            `orun.pipeline.guards`).
        kept: for a releasing kind, whether its result stays in the store, to be published by another stage or person.
        one_of: parameters and inputs of which a stage has exactly one.
        needed: parameters that some values of other parameters need.
        metrics: its metrics by name, with what is known of each beforehand: gates are checked against it. Which of them
            some parameters yield, a module's `metrics(params)` tells, else all. None if any name may occur (a user's
            stage that declares none).
        samples: number of samples that a gate on each metric needs, by name; the parameter `samples` defaults to the
            largest for the gates of the stage.
        runtimes: for a kind that converts, what can run its source model as a reference of `measure/*`; each with the
            distributions that it needs.
    """

    inputs: Mapping[str, Port] = field(default_factory=dict)
    output: Artifact = "onnx"
    tools: tuple[str, ...] = ()
    extra: str = ""
    stage_class: StageClass = "portable"
    interface: Literal["same", "changed"] = "same"
    deterministic: bool = True
    exclusive: bool = False
    out_of_process: bool = False
    cpus: int = 1
    preload: tuple[str, ...] = ()
    baseline: bool = False
    provenance: bool = False
    builds_with: tuple[str, ...] = ()
    calibration_params: tuple[str, ...] = ()
    guards: bool = False
    releases: bool = False
    kept: bool = False
    one_of: tuple[str, ...] = ()
    needed: Mapping[str, Needed] = field(default_factory=dict)
    metrics: Mapping[str, Quantity] | None = field(default_factory=dict)
    samples: Mapping[str, int] = field(default_factory=dict)
    runtimes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def publishes(self) -> bool:
        """Whether it publishes something: it runs only on request, and never for a diagnosis."""
        return self.releases and not self.kept


def to_module_name(kind: str) -> str:
    """Return the module name of a kind of the library."""
    return f"orun.stages.{kind.replace('/', '.').replace('-', '_')}"


@dataclasses.dataclass(frozen=True)
class Context:
    """Inputs, output folder and services of a running stage.

    Attributes:
        stage: the stage's id.
        inputs: read-only folder of each connected input port (and `baseline`, see `Spec`).
        output: the empty folder to fill. Apart from it the stage may write only to its working folder.
        root: the folder of the pipeline file; code and paths are relative to it.
        target: the target that the parameters name, or None; the first if there are several.
        extra_targets: targets of other parameters, by parameter.
        sources: source models that stand for the models at input ports, by port; see `Port.runtime`.
        key: cache key of the result before the stage runs; a name for data that outlives an interrupted run.
        seed: seed for every random choice.
        timeout: seconds that the stage may run, or None.
        provenance: path of `provenance.json` for kinds with `Spec.provenance`.
        open_log: opens the stage's log; see `log`.
        progress: progress(done, total, unit) shows on the terminal.
        notes: notes so far, see `note`.
    """

    stage: str
    inputs: Mapping[str, Path]
    output: Path
    root: Path
    target: Target | None
    seed: int
    timeout: float | None
    provenance: Path | None
    open_log: Callable[[], logging.Logger]
    progress: Callable[[int, int, str], None]
    extra_targets: Mapping[str, Target] = dataclasses.field(default_factory=dict)
    sources: Mapping[str, SourceModel] = dataclasses.field(default_factory=dict)
    key: str = ""
    notes: list[str] = dataclasses.field(default_factory=list)

    def note(self, text: str) -> None:
        """Add a note for users of the result, ten different ones at most; every run with this result shows them."""
        self.notes.append(text)

    def failed(self, problem: str, *, why: str = "", hint: str = "") -> StageFailed:
        """Return the error to raise when the stage cannot go on: the problem, its cause, and what to do about it."""
        return StageFailed(self.stage, problem, why=why, hint=hint)

    @cached_property
    def log(self) -> logging.Logger:
        """Logger of the stage."""
        return self.open_log()

    def model(self, port: str = "model") -> Path:
        """Return the path of the ONNX proto of an `onnx` input."""
        return self.inputs[port] / MODEL

    @property
    def model_target(self) -> Target:
        """Target on which a model runs: that of the parameters, else the CPU."""
        return self.target or Target("cpu")

    @property
    def result(self) -> Path:
        """Path of the ONNX proto that an `onnx` stage must write."""
        return self.output / MODEL

    def load(self, reference: Code, takes: Sequence[str] | None = None) -> Callable[..., Any]:
        """Return the function that `file.py:function` names, imported from the pipeline's folder.

        Args:
            reference: `file.py:function`.
            takes: names of the arguments of the later call, to be checked; None for no check.

        Raises:
            UsageError: when there is no such file or function, or it does not take these arguments.
        """
        from orun.stages.code import load_function

        return load_function(self.root, reference, takes)


F = TypeVar("F", bound=Callable[..., Any])


@overload
def stage(function: F, /) -> F: ...


@overload
def stage(
    *,
    inputs: Mapping[str, str] | None = None,
    output: Artifact = "onnx",
    tools: Collection[str] = (),
    interface: Literal["same", "changed"] = "same",
    stage_class: StageClass = "portable",
    metrics: Collection[str] | None = None,
    deterministic: bool = True,
    baseline: bool = False,
    releases: bool = False,
) -> Callable[[F], F]: ...


def stage(  # noqa: PLR0913 - each argument is a declaration of its own
    function: F | None = None,
    /,
    *,
    inputs: Mapping[str, str] | None = None,
    output: Artifact = "onnx",
    tools: Collection[str] = (),
    interface: Literal["same", "changed"] = "same",
    stage_class: StageClass = "portable",
    metrics: Collection[str] | None = None,
    deterministic: bool = True,
    baseline: bool = False,
    releases: bool = False,
) -> F | Callable[[F], F]:
    """Declare your own function as a stage: `uses: ./file.py:function`.

    The function is called as `function(context, **parameters)`. Its keyword-only arguments are its parameters, typed
    like the fields of a parameter class. It may return a mapping of metric names to numbers or `Metric`.
    The declaration is read from the source without running it, so every argument here must be a literal.

    Args:
        function: where the decorator stands without parentheses, `@orun.stage`.
        inputs: type of each input port, the first is the primary one; `{"model": "onnx"}` when left out.
        output: type of the artifact in `context.output`.
        tools: distributions whose versions are in the key.
        interface: `same` if an `onnx` output keeps the inputs and outputs of its input.
        stage_class: `portable`, `device` or `measurement`.
        metrics: names of its metrics; any name when left out.
        deterministic: whether equal inputs yield equal bytes; if they do not, the first result is kept.
        baseline: whether it measures the accepted model too, as its input `baseline`, when a gate has `max_regression`
            and another model was accepted; for the output `metrics`.
        releases: whether it publishes its input, so that it waits for the gates on that.
    """
    # `orun.stages.custom` reads them from the source.
    del inputs, output, tools, interface, stage_class, metrics, deterministic, baseline, releases

    def mark(function: F) -> F:
        return function

    return mark if function is None else function
