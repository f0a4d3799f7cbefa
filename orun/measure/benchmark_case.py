"""Benchmark case: a model to measure with its target and inputs. Session info: how it behaved when it was opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from orun.core.targets import Target
from orun.measure.framework_model import Opener
from orun.measure.latency.cpu_time import Work

MODEL, BASELINE = "model", "baseline"  # names of cases; any other is a reference


@dataclass(frozen=True, eq=False)
class BenchmarkCase:
    """A model to measure.

    Attributes:
        model: path of its proto.
        target: where it runs.
        feeds: its inputs by name.
        bound: whether inputs and outputs are bound to the device beforehand. Copies are then not part of an inference.
        streamed: whether time on the device's stream is measured too.
        source: opens the model of another framework that runs in place of the ONNX model; None for ONNX Runtime.
    """

    model: Path
    target: Target
    feeds: Mapping[str, NDArray[Any]]
    bound: bool = False
    streamed: bool = False
    source: Opener | None = None


@dataclass(frozen=True)
class SessionInfo:
    """A session that is ready.

    Attributes:
        load: seconds to make it.
        first: seconds of the first inference.
        each: seconds of the fastest inference when warm, for planning.
        work: threads that work in an inference.
        processor: whether every node runs on the CPU, by whichever provider.
        warm: seconds of inference until it was warm.
        framework: what runs it if not ONNX Runtime: `PyTorch 2.13.0, eager`.
    """

    load: float
    first: float
    each: float
    work: Work
    processor: bool
    warm: float = 0.0
    framework: str = ""
