"""A TensorFlow function of flat, named inputs: what every model but those of TFLite is made into."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from orun.stages._graph.feeds import Input
from orun.stages._graph.sessions import Feed

if TYPE_CHECKING:
    from onnx import ModelProto

    from orun.stages._tf.model import Array

COMPILED = "_XlaMustCompile"  # the attribute of a call whose function XLA is to compile
ARGUMENT = "orun_input_{}"  # the name of an input while it is converted: any name of the model's may be taken inside


class Function:
    """A model that can be called with tensors in order.

    Args:
        call: takes one tensor for each input, and returns tensors in any nest of lists, tuples and dictionaries.
        inputs: what it takes, in that order.
        keep: what must stay alive as long as it is used, such as the variables of a SavedModel.
    """

    def __init__(self, call: Callable[..., Any], inputs: Sequence[Input], keep: Any = None) -> None:
        self.inputs = tuple(inputs)
        self._keep = keep
        self._names: tuple[str, ...] = ()
        self._signature = [
            tf.TensorSpec(
                [None if isinstance(axis, str) else axis for axis in item.shape], _type(item), ARGUMENT.format(n)
            )
            for n, item in enumerate(self.inputs)
        ]

        def flat(*tensors: Any) -> list[Any]:
            returned = call(*tensors)
            self._names = tuple(_names(returned))
            return list(keras.tree.flatten(returned))

        self._flat = flat
        self._function, self._concrete = self._traced()

    def _traced(self) -> tuple[Any, Any]:
        function = tf.function(self._flat, autograph=False)
        return function, function.get_concrete_function(*self._signature)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of what it yields: keys of dictionaries, otherwise `output`, numbered where there are several."""
        return self._names

    @property
    def weights(self) -> int:
        """Bytes of its variables."""
        return sum(variable.shape.num_elements() * variable.dtype.size for variable in self._concrete.variables)

    def __call__(self, feed: Feed) -> Sequence[Array]:
        """What TensorFlow makes of the inputs."""
        tensors = [
            tf.constant(feed[item.name], dtype=spec.dtype)
            for item, spec in zip(self.inputs, self._signature, strict=True)
        ]
        return [tensor.numpy() for tensor in self._concrete(*tensors)]

    @contextmanager
    def nudged_weights(self, seed: int) -> Iterator[None]:
        """Within it every variable of float32 or float64 is changed by at most one unit in the last place."""
        random = np.random.default_rng(seed)
        variables = [item for item in self._concrete.variables if item.dtype in (tf.float32, tf.float64)]
        values = [item.numpy() for item in variables]
        try:
            for variable, value in zip(variables, values, strict=True):
                steps = random.integers(-1, 2, value.shape) * float(np.finfo(value.dtype).eps)
                variable.assign((value * (1 + steps)).astype(value.dtype))
            yield
        finally:
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)

    def convert(self, opset: int) -> tuple[ModelProto, Sequence[str], Sequence[str]]:
        """What tf2onnx makes of it."""
        import tf2onnx

        function, concrete = self._function, self._concrete
        if any(node.attr[COMPILED].b for node in concrete.graph.as_graph_def().node):
            with _uncompiled():
                function, concrete = self._traced()
        model, _ = tf2onnx.convert.from_function(function, input_signature=self._signature, opset=opset)
        _store_constants(model, concrete)
        inputs = [ARGUMENT.format(n) for n in range(len(self.inputs))]
        return model, inputs, [value.name for value in model.graph.output]


def _store_constants(model: ModelProto, concrete: Any) -> None:
    """Store the tensors that the function holds, as Keras's Normalization does: tf2onnx makes inputs of them."""
    from onnx import numpy_helper

    held = {inside.name: value for value, inside in concrete.graph.captures if hasattr(value, "numpy")}
    for value in [value for value in model.graph.input if value.name in held]:
        model.graph.input.remove(value)
        model.graph.initializer.append(numpy_helper.from_array(held[value.name].numpy(), value.name))


@contextmanager
def _uncompiled() -> Iterator[None]:
    """Trace what XLA is to compile, such as Keras's grouped convolutions, as any function, into which tf2onnx sees."""
    given = tf.function

    def function(*words: Any, **options: Any) -> Any:
        return given(*words, **{**options, "jit_compile": None})

    tf.function = function
    try:
        yield
    finally:
        tf.function = given


def _type(item: Input) -> Any:
    return tf.string if item.dtype == "object" else tf.as_dtype(item.dtype)


def _names(returned: Any) -> list[str]:
    paths = [".".join(map(str, path)) for path, _ in keras.tree.flatten_with_path(returned)]
    if isinstance(returned, Mapping) and all(paths):
        return paths
    return ["output"] if len(paths) == 1 else [f"output_{path or place}" for place, path in enumerate(paths)]
