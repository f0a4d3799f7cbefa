"""ONNX models as functions of their inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from orun.core.targets import Target

if TYPE_CHECKING:
    from orun.measure.dataset import Array

Feed = Mapping[str, "Array"]
Model = Callable[[Feed], Sequence["Array"]]


def open_model(path: Path, outputs: Sequence[str], target: Target | None = None) -> Model:
    """Return an ONNX model as a function of its inputs, on the target, or on the CPU when that is None.

    It runs on one thread, so that sums have the same order and results are equal on every run. Dynamic axes may have
    any size, even if the target fixes them.
    """
    from orun.measure.session import open_session

    opened = open_session(path, (target or Target("cpu")).with_any_size(intra_op_num_threads=1))
    names = {item.name for item in opened.get_inputs()}
    return lambda feed: opened.run(outputs, {name: value for name, value in feed.items() if name in names})
