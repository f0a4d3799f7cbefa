"""Runs of a model on a dataset: the inputs that its layers see, and the error that other weights cause."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper

from orun.core.targets import Target
from orun.measure.dataset import Array, Dataset
from orun.measure.session import open_session
from orun.stages._graph.feeds import take_example
from orun.stages._graph.inner_values import iter_values
from orun.stages._graph.io import save
from orun.stages._graph.signature import count_axes
from orun.stages.optimize._low_rank.layers import Layer

Floats = NDArray[np.float64]

FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)
JUDGED = 4  # every fourth example judges; the others show what the layers see


class Probe:
    """Session of a model in which layers may get other weights for a run, on one thread of the CPU."""

    def __init__(self, model: ModelProto, layers: Sequence[Layer], dataset: Dataset) -> None:
        """Open the session; of fewer examples than `JUDGED`, all serve both ends."""
        numbers = np.arange(len(dataset))
        judged = numbers % JUDGED == JUDGED - 1
        self._model, self._layers = model, layers
        self._judging = dataset.choose(numbers[judged]) if judged.any() else dataset
        self._calibrating = dataset.choose(numbers[~judged]) if judged.any() else dataset
        self._ranks = count_axes(model)
        self.outputs = [value.name for value in model.graph.output if value.type.tensor_type.elem_type in FLOATS]
        self._session = self._open()

    def _open(self) -> Any:
        """Return a session that also takes the layers' weights."""
        copy = ModelProto()
        copy.CopyFrom(self._model)
        for layer in self._layers:  # an input with a stored value may be given another
            kind = helper.np_dtype_to_tensor_dtype(layer.array.dtype)
            copy.graph.input.append(helper.make_tensor_value_info(layer.weight, kind, layer.array.shape))
        with TemporaryDirectory(dir=".") as folder:
            path = Path(folder, "probe.onnx")
            save(copy, path, external=True)
            return open_session(path, Target("cpu", session={"intra_op_num_threads": 1, "log_severity_level": 3}))

    def collect_grams(self, progress: Callable[[int, int, str], None]) -> list[Floats]:
        """Return the Gram matrix of each layer's input rows; layers that read the same share one."""
        grams: dict[tuple[Any, ...], Floats] = {}
        distinct = {layer.reading: layer for layer in self._layers}
        names = list(dict.fromkeys(layer.node.input[0] for layer in distinct.values()))
        for number, values in enumerate(iter_values(self._model, names, self._calibrating)):
            progress(number, len(self._calibrating), "examples calibrated")
            for reading, layer in distinct.items():
                rows = layer.unfold(values[layer.node.input[0]])
                grams[reading] = grams.get(reading, 0.0) + rows.T @ rows
        return [grams[layer.reading] for layer in self._layers]

    def measure_error(self, weights: Mapping[str, Array], examples: int | None = None) -> float:
        """Return the root mean square error with other weights, relative to the output; the largest of all outputs.

        Values that are not finite in the right answers, such as those of masks, do not count. Only the first `examples`
        judge, or all of them if None.
        """
        errors, totals = np.zeros(len(self.outputs)), np.zeros(len(self.outputs))
        for expected, actual in zip(self._right[:examples], self._iter_answers(weights), strict=False):
            for place, (right, value) in enumerate(zip(expected, actual, strict=True)):
                finite = np.isfinite(right)
                errors[place] += np.sum((value[finite] - right[finite]) ** 2)
                totals[place] += np.sum(right[finite] ** 2)
        return float(np.sqrt(errors / np.where(totals, totals, 1)).max())

    @cached_property
    def _right(self) -> list[list[Floats]]:
        return list(self._iter_answers({}))

    def _iter_answers(self, weights: Mapping[str, Array]) -> Iterator[list[Floats]]:
        for number in range(len(self._judging)):
            feed = {**take_example(self._judging.inputs, number, self._ranks), **weights}
            yield [np.asarray(value, np.float64) for value in self._session.run(self.outputs, feed)]
