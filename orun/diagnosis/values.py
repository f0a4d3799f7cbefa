"""Inner values of two models, fetched on the same inputs and compared tensor by tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper

from orun.core.targets import Target
from orun.errors import UsageError
from orun.measure.metrics.fidelity import SQNR_LIMIT, decibels
from orun.measure.session import open_session

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Array = NDArray[Any]
Feed = Mapping[str, Array]
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, eq=False)
class Pair:
    """Two models and their inputs.

    Attributes:
        model, reference: whole in memory, or with weights on disk (`stages/_graph/disk_weights.py`).
        feeds: the inputs, one mapping for each run.
        target: target of both.
    """

    model: ModelProto
    reference: ModelProto
    feeds: Sequence[Feed]
    target: Target


@dataclass
class Tally:
    """Signal and noise of tensors, summed over examples.

    Attributes:
        signal, noise: by the names of the tensors.
        reshaped: tensors that have another shape than the reference in an example.
        unlike: tensors that cannot be compared: these, and those whose elements are no floats.
    """

    signal: dict[str, float] = field(default_factory=dict)
    noise: dict[str, float] = field(default_factory=dict)
    reshaped: set[str] = field(default_factory=set)
    unlike: set[str] = field(default_factory=set)

    def add(self, name: str, value: Array, reference: Array) -> None:
        """Add the value of a tensor in one example, without elements that are not finite in the reference."""
        if value.shape != reference.shape:
            self.reshaped.add(name)
        if name in self.reshaped or value.dtype.kind != "f" or reference.dtype.kind != "f":
            self.unlike.add(name)
            return
        kept = np.isfinite(reference)
        ours, theirs = value[kept].astype(np.float64), reference[kept].astype(np.float64)
        self.signal[name] = self.signal.get(name, 0.0) + float(np.square(theirs).sum())
        gap = float(np.square(ours - theirs).sum()) if np.isfinite(ours).all() else np.inf
        self.noise[name] = self.noise.get(name, 0.0) + gap

    def sqnr(self, name: str) -> float | None:
        """Return the signal-to-noise ratio in dB; None for a tensor that cannot be compared."""
        if name in self.unlike or name not in self.signal:
            return None
        noise = self.noise[name]
        return -SQNR_LIMIT if np.isinf(noise) else decibels(self.signal[name], noise)

    def compute_error(self) -> float:
        """Return the noise for each unit of signal, the mean over all tensors; infinite if a value is not finite."""
        names = [name for name in self.signal if name not in self.unlike]
        return float(np.mean([self.noise[name] / (self.signal[name] or 1.0) for name in names])) if names else 0.0


class Probe:
    """Session of a model that also fetches inner values.

    `names` are fetched in addition to the outputs. `as_is` goes without ONNX Runtime's optimizations, which would
    replace the inner nodes. Weights on disk are in the working folder.
    """

    def __init__(self, model: ModelProto, names: Iterable[str], target: Target, *, as_is: bool = True) -> None:
        present = [value.name for value in (*model.graph.output, *model.graph.input)]
        extended = ModelProto()
        extended.CopyFrom(model)
        inner = [name for name in dict.fromkeys(names) if name not in present]
        extended.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in inner)
        self.session = _open_in_memory(extended, target, as_is=as_is)
        self.types = {item.name: item.type for item in (*self.session.get_outputs(), *self.session.get_inputs())}
        self._fed = {item.name for item in self.session.get_inputs()}
        self._fetched = [item.name for item in self.session.get_outputs() if item.type.startswith("tensor(")]

    def run(self, feed: Feed) -> dict[str, Array]:
        """Run the model and return the fetched values and the inputs."""
        fed = {name: value for name, value in feed.items() if name in self._fed}
        if not self._fetched:  # a session takes an empty list for all outputs
            return fed
        try:
            values: Sequence[Any] = self.session.run(self._fetched, fed)
        except Exception as error:  # ONNX Runtime's errors share no other base class
            shapes = ", ".join(f"{name} {list(value.shape)}" for name, value in fed.items())
            raise UsageError(f"a model does not run on {shapes}", why=str(error).strip().partition("\n")[0]) from error
        return {**fed, **dict(zip(self._fetched, map(np.asarray, values), strict=True))}

    def map_element_types(self) -> dict[str, int]:
        """Return the element type (`TensorProto.DataType`) of each fetched or fed tensor."""
        types = {
            name: kind.removeprefix("tensor(").removesuffix(")").upper()
            for name, kind in self.types.items()
            if kind.startswith("tensor(")
        }
        return {name: int(TensorProto.DataType.Value(kind)) for name, kind in types.items()}


def _open_in_memory(model: ModelProto, target: Target, *, as_is: bool) -> InferenceSession:
    """Open a session of a model in memory, on one thread, for inputs of any size."""
    level = {"graph_optimization_level": "disable"} if as_is else {}
    with NamedTemporaryFile(dir=".", suffix=".onnx") as file:  # next to the weights
        file.write(model.SerializeToString())
        file.flush()
        return open_session(Path(file.name), target.with_any_size(intra_op_num_threads=1, **level))
