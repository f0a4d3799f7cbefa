"""Contract of a stage kind: what it must have, and what it gets when it runs.

A built-in kind is a module `orun/stages/<folder>/<file>.py` with

    Params   a frozen dataclass (see `params.py`)
    SPEC     a `Spec`
    run      run(context: Context, params: Params) -> Mapping[str, Metric]

and, when its metrics are known beforehand, metrics(params: Params) -> Collection[str]; and, when some parameters need
packages that others do without, packages(params: Params, root: Path) -> Mapping[str, str]: what asks for each of them.
The docstring of the module is the user's documentation. The module imports nothing heavy: `run` does.
A plug-in package offers such a module under the entry point group `orun.stages`.
A function of the user's own (`uses: ./file.py:function`) is declared by the decorator `stage` and is read without
being run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from orun.core.metrics import Metric, Unit
from orun.core.serialization import Record, field
from orun.core.targets import StageClass, Target
from orun.stages.params import Code

if TYPE_CHECKING:
    import logging

Artifact = Literal["onnx", "metrics", "engine", "dataset", "bundle", "files"]

MODEL = "model.onnx"  # the name of the proto in an `onnx` artifact; external data lies beside it


class Port(Record, frozen=True):
    """An input of a kind.

    Attributes:
        accepts: the artifact types that may be connected.
        doc: what it is for, one sentence.
        optional: whether it may be left out.
        many: whether further ones may be connected, as `<port>.<name>`.
        needed_for: values that ask for it where it may be left out, by the parameter, a list, that they stand in.
        metrics: names of metrics that there are only where it is connected.
    """

    accepts: tuple[Artifact, ...]
    doc: str
    optional: bool = False
    many: bool = False
    needed_for: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    metrics: tuple[str, ...] = ()


class Spec(Record, frozen=True):
    """What a kind depends on and yields.

    Attributes:
        inputs: input ports by name; the first is the primary one (`needs: stage`).
        output: the type of its artifact.
        tools: distributions whose versions are in the key, by their names on the package index; alternatives that
            exclude one another are joined by `|` (`onnxruntime|onnxruntime-gpu`).
        extra: the extra of orun that installs them.
        stage_class: what its result is bound to (see the key).
        interface: `same` when an `onnx` output must have the inputs and outputs of the primary input.
        deterministic: whether equal inputs make equal bytes. Where they do not, the first result is kept, and a warning
            is given unless the kind says so here.
        exclusive: it needs the machine to itself (it measures time).
        distant: it runs its models where their targets say in processes that it starts, so that its own process, with
            the user's code, need not be in the environment of its target.
        cpus: cores that it keeps busy.
        preload: modules that its process imports before the stage starts, shared with other stages.
        baseline: it measures the accepted baseline model too: an extra input `baseline` is connected by the planner
            when a gate asks for `max_regression`.
        lineage: it is given `lineage.json`: every stage before it, and those that guard it, with parameters, tools,
            digests, metrics, verdicts.
        builds_with: kinds of the library that it runs itself; their code counts for its result as its own does.
        fits: parameters that name data which the result is calibrated with or chosen by.
        guards: it fails where what goes in is not good enough, without a gate: releases of that wait for it.
        releases: what it makes is given away, so that it waits for what judges it (see `orun.pipeline.guards`).
        kept: of one that releases: what it makes stays in the store, for another stage or for people to give away.
        one_of: parameters, and inputs, of which a stage has exactly one.
        metrics: names of the metrics it yields whatever its parameters are; a module's own `metrics(params)` goes
            before it; None when any name may come (a user's stage that declares none).
        samples: how many each metric needs, by name, to be held against a figure; the parameter `samples` is the most
            that a gate of the stage needs when it is left out.
        units: of those metrics whose unit is known beforehand, by name; a gate's threshold is held against it.
    """

    inputs: Mapping[str, Port] = field(default_factory=dict)
    output: Artifact = "onnx"
    tools: tuple[str, ...] = ()
    extra: str = ""
    stage_class: StageClass = "portable"
    interface: Literal["same", "changed"] = "same"
    deterministic: bool = True
    exclusive: bool = False
    distant: bool = False
    cpus: int = 1
    preload: tuple[str, ...] = ()
    baseline: bool = False
    lineage: bool = False
    builds_with: tuple[str, ...] = ()
    fits: tuple[str, ...] = ()
    guards: bool = False
    releases: bool = False
    kept: bool = False
    one_of: tuple[str, ...] = ()
    metrics: tuple[str, ...] | None = ()
    samples: Mapping[str, int] = field(default_factory=dict)
    units: Mapping[str, Unit] = field(default_factory=dict)

    @property
    def gives(self) -> bool:
        """Whether it gives something away: it is run where a run asks for it, and never to find something out."""
        return self.releases and not self.kept


def module_name(kind: str) -> str:
    """Return the name of the module of a kind of the library."""
    return f"orun.stages.{kind.replace('/', '.').replace('-', '_')}"


@dataclasses.dataclass(frozen=True)
class Context:
    """What a running stage may touch.

    Attributes:
        stage: the stage's id.
        inputs: read-only folder of each connected input port (and `baseline`, see `Spec`).
        output: the empty folder to fill; nothing else may be written but the scratch folder, which is the process's
            working folder.
        root: the folder of the pipeline file; code and paths are relative to it.
        target: the target that the parameters name, or None; the first when several do.
        further: those that other parameters name, by the parameter.
        key: of the result, as far as it is known before the stage runs: a name for what outlives an interrupted run.
        seed: seed for every random choice.
        timeout: seconds that the stage may run, or None.
        lineage: path of `lineage.json` for kinds that ask for it.
        open_log: opens the stage's log; see `log`.
        progress: progress(done, total, what) shows on the terminal.
        notes: what was said by `note` so far.
    """

    stage: str
    inputs: Mapping[str, Path]
    output: Path
    root: Path
    target: Target | None
    seed: int
    timeout: float | None
    lineage: Path | None
    open_log: Callable[[], logging.Logger]
    progress: Callable[[int, int, str], None]
    further: Mapping[str, Target] = dataclasses.field(default_factory=dict)
    key: str = ""
    notes: list[str] = dataclasses.field(default_factory=list)

    def note(self, text: str) -> None:
        """Say something of the result that who uses it should know: every run that has it shows the sentence."""
        self.notes.append(text)

    @cached_property
    def log(self) -> logging.Logger:
        """Messages for the stage's log."""
        return self.open_log()

    def model(self, port: str = "model") -> Path:
        """Path of the ONNX proto of an `onnx` input."""
        return self.inputs[port] / MODEL

    @property
    def result(self) -> Path:
        """Path where an `onnx` stage leaves its proto."""
        return self.output / MODEL

    def load(self, reference: Code, takes: Sequence[str] | None = None) -> Callable[..., Any]:
        """The function that `file.py:function` names, imported from the pipeline's folder.

        Args:
            reference: `file.py:function`.
            takes: what it will be called with, by name, where that is to be checked.

        Raises:
            UsageError: when there is no such file or function, or it cannot be called so.
        """
        from orun.stages.code import load_function

        return load_function(self.root, reference, takes)


class KindModule(Protocol):
    """The shape of a built-in or plug-in kind."""

    Params: type
    SPEC: Spec

    def run(self, context: Context, params: Any) -> Mapping[str, Metric]:
        """Fill `context.output` and return the metrics."""


F = TypeVar("F", bound=Callable[..., Any])


def stage(  # noqa: PLR0913 - each is a declaration by itself
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
) -> Callable[[F], F]:
    """Declare a function of your own as a stage: `uses: ./file.py:function`.

    The function is called as `function(context, **parameters)`; its keyword-only arguments are its parameters, typed
    like the fields of a parameter class. It may return a mapping of metric names to numbers or `Metric`.
    The declaration is read from the source without running it, so every argument here is a literal.

    Args:
        inputs: type of each input port, the first is the primary one; `{"model": "onnx"}` when left out.
        output: type of what it leaves in `context.output`.
        tools: distributions whose versions are in the key.
        interface: `same` when an `onnx` output keeps the inputs and outputs of its input.
        stage_class: `portable`, `device` or `measurement`.
        metrics: names it returns; any name when left out.
        deterministic: whether equal inputs make equal bytes; where they do not, the first result is kept.
        baseline: whether it measures the accepted model too, which then is its input `baseline` where a gate asks for
            `max_regression` and another model was accepted; for the output `metrics`.
        releases: whether it gives away what goes in, so that it waits for the gates on that.
    """
    del (
        inputs,
        output,
        tools,
        interface,
        stage_class,
        metrics,
        deterministic,
        baseline,
        releases,
    )  # read from the source by `orun.stages.custom`

    def mark(function: F) -> F:
        return function

    return mark
