"""TFLite models: run by TensorFlow's interpreter, converted by tf2onnx from the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from onnx import ModelProto

from orun.errors import UsageError
from orun.measure.dataset import Array
from orun.stages._graph.feeds import Input
from orun.stages._graph.sessions import Feed
from orun.stages._tf.inputs import Declared, choose_axes


class Lite:
    """TFLite file. Inputs and outputs have the names of its signature where it has one.

    Raises:
        UsageError: when it has several signatures.
    """

    def __init__(self, path: Path, declared: Declared, threads: int = 1) -> None:
        self.title = f"TensorFlow Lite of TensorFlow {tf.__version__}"
        self._path = path
        self._interpreter = tf.lite.Interpreter(str(path), num_threads=threads)
        signatures = list(self._interpreter.get_signature_list())
        if len(signatures) > 1:
            raise UsageError(
                f"{path.name} has several signatures, and tf2onnx converts one",
                why=f"it has {', '.join(signatures)}",
                hint=f"convert the SavedModel that it was made of, and name one: `signature: {signatures[0]}`",
            )
        self._inputs = _read_details(self._interpreter, "inputs")
        self._outputs = _read_details(self._interpreter, "outputs")
        self.inputs = tuple(
            Input(name, np.dtype(detail["dtype"]).name, choose_axes(name, _read_shape(detail), declared))
            for name, detail in self._inputs.items()
        )
        self.outputs = tuple(self._outputs)

    @property
    def weights(self) -> int:
        """Bytes of the file, which holds little but weights."""
        return self._path.stat().st_size

    def __call__(self, feed: Feed) -> Sequence[Array]:
        self.bind(feed)()
        return [self._interpreter.get_tensor(detail["index"]) for detail in self._outputs.values()]

    def bind(self, feed: Feed) -> Callable[[], object]:
        """Set the inputs and return what runs the interpreter."""
        for name, detail in self._inputs.items():
            self._interpreter.resize_tensor_input(detail["index"], feed[name].shape)
        self._interpreter.allocate_tensors()
        for name, detail in self._inputs.items():
            self._interpreter.set_tensor(detail["index"], feed[name])
        run: Callable[[], object] = self._interpreter.invoke
        return run

    def nudged_weights(self, seed: int) -> AbstractContextManager[None]:
        """Change nothing: the weights of a TFLite file are constants."""
        del seed
        return nullcontext()

    def convert(self, opset: int) -> tuple[ModelProto, Sequence[str], Sequence[str]]:
        """Convert the file with tf2onnx."""
        import tf2onnx

        model, _ = tf2onnx.convert.from_tflite(str(self._path), opset=opset)
        return (
            model,
            [detail["name"] for detail in self._inputs.values()],
            [detail["name"] for detail in self._outputs.values()],
        )


def _read_details(interpreter: Any, part: str) -> dict[str, dict[str, Any]]:
    """Return details of tensors by their names in the signature, or by their own without a signature."""
    details = interpreter.get_input_details() if part == "inputs" else interpreter.get_output_details()
    signatures = interpreter.get_signature_list()
    if not signatures:
        return {detail["name"]: detail for detail in details}
    runner = interpreter.get_signature_runner(next(iter(signatures)))
    named = runner.get_input_details() if part == "inputs" else runner.get_output_details()
    return dict(sorted(named.items()))


def _read_shape(detail: Mapping[str, Any]) -> list[int]:
    """Return sizes, -1 where an axis is open."""
    return [int(size) for size in (detail["shape_signature"] if len(detail["shape_signature"]) else detail["shape"])]
