"""Accuracy and speed of a candidate, relative to the float model."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from numpy.typing import NDArray
from onnxruntime import InferenceSession

from orun.core.serialization import replace
from orun.core.targets import Interpreter, Target
from orun.measure.accuracy.request import Request
from orun.measure.benchmark_case import BenchmarkCase
from orun.measure.dataset import Dataset
from orun.measure.foreign_process import RemoteSession
from orun.measure.latency.final_timing import time_candidates
from orun.measure.latency.measurement import Budget, measure
from orun.measure.plugins import CPU
from orun.measure.session import open_session
from orun.measure.workers import WorkerProcess
from orun.stages.contract import to_module_name

QUICK = Budget(time=4.0, resolution=0.05, launches=(3, 3), samples=6, warmup=0.05, alone=0.3)
FLOAT = "float"


@dataclass(frozen=True)
class Goal:
    """Goal of the search: bounds of a metric that `measure/accuracy` names; None for no bound."""

    metric: str
    at_least: float | None
    at_most: float | None

    def is_better(self, value: float, other: float) -> bool:
        """Return whether a value is better than another."""
        return value > other if self.at_least is not None else value < other

    def measure_gap(self, value: float) -> float:
        """Return by how much a value misses the goal; 0 when it does not, infinite when it is not finite."""
        if not math.isfinite(value):
            return math.inf
        low = self.at_least - value if self.at_least is not None else 0.0
        high = value - self.at_most if self.at_most is not None else 0.0
        return max(low, high, 0.0)


@dataclass(frozen=True)
class Judge:
    """Judge of the candidates of one model.

    Attributes:
        goal: the goal that they must reach.
        request: how accuracy is measured.
        dataset: all examples.
        few: examples that a candidate is tried on first.
        reference: the model in float, and where it runs.
        feed: inputs of the models for timing.
        seed: seed of every random order.
    """

    goal: Goal
    request: Request
    dataset: Dataset
    few: Dataset
    reference: BenchmarkCase
    feed: Mapping[str, NDArray[Any]]
    seed: int

    def measure_accuracy(self, model: Path, target: Target, *, everything: bool = False) -> float:
        """Return the metric of a candidate, on a few examples or on all."""
        kind: Any = importlib.import_module(to_module_name("measure/accuracy"))
        with ExitStack() as stack:
            sessions = {
                "model": _open_session(model, target, stack),
                "reference": _open_session(self.reference.model, self.reference.target, stack),
            }
            report = kind.judge(sessions, self.dataset if everything else self.few, self.request, lambda *_: None)
        accuracy: float = report.metrics[self.goal.metric].value
        return accuracy

    def time(self, model: Path, target: Target) -> float:
        """Return the time of a candidate divided by that of the float model on the CPU, measured side by side."""
        if model == self.reference.model and target.providers[0].name == CPU:
            return 1.0
        subjects = {"model": BenchmarkCase(model, target, self.feed), "reference": self.reference}
        measured = measure(subjects, QUICK, self.seed, lambda *_: None, WorkerProcess)
        return math.exp(median(measured.list_log_ratios("reference")))

    def time_finalists(
        self, finalists: Sequence[tuple[Path, Target]], seconds: float, progress: Callable[[int], None]
    ) -> list[float]:
        """Return the fastest time of each finalist divided by that of the float model on the CPU.

        The seconds are for all of them together. `progress` is called with the number of each round of launches.
        """
        subjects = {str(number): BenchmarkCase(*finalist, self.feed) for number, finalist in enumerate(finalists)}
        spent = time_candidates({**subjects, FLOAT: self.reference}, seconds, self.seed, progress)
        return [spent[name] / spent[FLOAT] for name in subjects]


def _open_session(model: Path, target: Target, stack: ExitStack) -> InferenceSession | RemoteSession:
    """Open a session, in a separate process unless it runs on the CPU provider.

    Other providers start threads. Threads of a session in this process would be missing in the processes that are
    forked for the next timing.
    """
    quiet = replace(target, session={"session.intra_op.allow_spinning": False, **target.session})
    if [provider.name for provider in target.providers] == [CPU] and target.interpreter is None:
        return open_session(model, quiet)
    remote = replace(quiet, interpreter=target.interpreter or Interpreter(sys.executable))
    return stack.enter_context(RemoteSession(model, remote))
