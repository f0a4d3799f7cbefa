"""TensorFlow function of flat, named inputs: the form of every model except TFLite files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from onnx import ModelProto, numpy_helper

from orun.errors import UsageError
from orun.measure.dataset import Array
from orun.stages._graph.feeds import Input
from orun.stages._graph.sessions import Feed
from orun.stages._tf.compat import without_xla
from orun.stages.library_errors import describe_error

COMPILED = "_XlaMustCompile"  # attribute of a call whose function XLA must compile
TEXT_OPERATORS = ("LookupTableFind", "StringSplit", "StaticRegexReplace")  # prefixes of their names
COMPARISONS = ("Equal", "NotEqual")
ENCODED = "give the model its numbers"  # instead of texts
FIXED = 64  # size of an open axis in a hint
ARGUMENT = "orun_input_{}"  # name of an input during conversion, as the model may use its own name inside


class Function:
    """Model that takes tensors in order.

    Args:
        call: takes one tensor for each input, and returns tensors in any nest of lists, tuples and dictionaries.
        inputs: in that order.
        keep: object that must live as long as the function, such as the variables of a SavedModel.
        names: of several outputs, in the order of the tensors, if they have names without being a dictionary.
    """

    def __init__(self, call: Callable[..., Any], inputs: Sequence[Input], keep: Any, names: Sequence[str] = ()) -> None:
        self.title = f"TensorFlow {tf.__version__}, traced by tf.function"
        self.inputs = tuple(inputs)
        self._keep = keep
        self.outputs: tuple[str, ...] = ()  # keys of dictionaries or `names`; otherwise `output`, numbered if several
        self._signature = [
            tf.TensorSpec(
                [None if isinstance(axis, str) else axis for axis in item.shape],
                tf.string if item.dtype == "object" else tf.as_dtype(item.dtype),
                ARGUMENT.format(n),
            )
            for n, item in enumerate(self.inputs)
        ]

        def flatten_outputs(*tensors: Any) -> list[Any]:
            returned = call(*tensors)
            self.outputs = tuple(_name_outputs(returned, names))
            return list(keras.tree.flatten(returned))

        self._flat = flatten_outputs
        self._function, self._concrete = self._trace()

    def _trace(self) -> tuple[Any, Any]:
        """Return the function of TensorFlow, and its graph.

        Raises:
            UsageError: when TensorFlow cannot trace it.
        """
        function = tf.function(self._flat, autograph=False)
        try:
            return function, function.get_concrete_function(*self._signature)
        except Exception as error:  # layers and functions of the user raise errors of any class
            raise UsageError(
                "TensorFlow cannot trace the model", why=describe_error(error), hint=_suggest_axes(self.inputs)
            ) from error

    @property
    def weights(self) -> int:
        """Bytes of its variables."""
        return sum(variable.shape.num_elements() * variable.dtype.size for variable in self._concrete.variables)

    def __call__(self, feed: Feed) -> Sequence[Array]:
        return [tensor.numpy() for tensor in self.bind(feed)()]

    def bind(self, feed: Feed) -> Callable[[], Any]:
        """Return a function that runs it on tensors."""
        tensors = [
            tf.constant(feed[item.name], dtype=spec.dtype)
            for item, spec in zip(self.inputs, self._signature, strict=True)
        ]
        return lambda: self._concrete(*tensors)

    @contextmanager
    def nudged_weights(self, seed: int) -> Iterator[None]:
        """Change every variable of float32 or float64 by at most one unit in the last place within the block."""
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
        """Convert the function with tf2onnx.

        Raises:
            UsageError: when that fails, and the function prepares texts; when the function compares texts, which
                tf2onnx makes numbers of.
        """
        import tf2onnx

        function, concrete = self._function, self._concrete
        if any(node.attr[COMPILED].b for node in concrete.graph.as_graph_def().node):
            with without_xla():
                function, concrete = self._trace()
        try:
            model, _ = tf2onnx.convert.from_function(function, input_signature=self._signature, opset=opset)
            _store_constants(model, concrete)
        except Exception as error:  # tf2onnx only logs what it cannot convert, and fails later
            if not (names := _list_text_operators(concrete)):
                raise
            raise UsageError(
                "tf2onnx cannot convert the model",
                why=f"it uses {', '.join(names)}, as the layers StringLookup, IntegerLookup and TextVectorization do",
                hint=f"leave such a layer out of the exported model, and {ENCODED}",
            ) from error
        if names := _list_text_comparisons(concrete):
            raise UsageError(
                "tf2onnx cannot convert the model",
                why=f"it compares texts by {', '.join(names)}",
                hint=f"encode texts outside of the exported model, and {ENCODED}",
            )
        inputs = [ARGUMENT.format(n) for n in range(len(self.inputs))]
        return model, inputs, [value.name for value in model.graph.output]


def _list_text_operators(concrete: Any) -> list[str]:
    """Return the operators of a function that split texts or look values up in a table."""
    return sorted({node.op for node in _list_nodes(concrete) if node.op.startswith(TEXT_OPERATORS)})


def _list_text_comparisons(concrete: Any) -> list[str]:
    """Return the operators of a function that compare texts; tf2onnx casts these to numbers."""
    text = tf.string.as_datatype_enum
    return sorted({node.op for node in _list_nodes(concrete) if node.op in COMPARISONS and node.attr["T"].type == text})


def _list_nodes(concrete: Any) -> list[Any]:
    """Return the nodes of a function and of the functions that it calls."""
    graph = concrete.graph.as_graph_def()
    return [*graph.node, *(node for function in graph.library.function for node in function.node_def)]


def _store_constants(model: ModelProto, concrete: Any) -> None:
    """Store the tensors that the function captures, as in Keras's Normalization: tf2onnx makes inputs of them."""
    captured = {inside.name: value for value, inside in concrete.graph.captures if hasattr(value, "numpy")}
    for value in [value for value in model.graph.input if value.name in captured]:
        model.graph.input.remove(value)
        model.graph.initializer.append(numpy_helper.from_array(captured[value.name].numpy(), value.name))


def _suggest_axes(inputs: Sequence[Input]) -> str:
    """Say how to fix the axes of the first input that has other open axes than the first one."""
    for item in inputs:
        shape = [FIXED if place and isinstance(axis, str) else axis for place, axis in enumerate(item.shape)]
        if shape != [*item.shape]:
            axes = ", ".join(map(str, shape))
            return f"fix the axes that it leaves open: `inputs: {{{item.name}: {{shape: [{axes}]}}}}`"
    return "look at `inputs`"


def _name_outputs(returned: Any, names: Sequence[str]) -> list[str]:
    paths = [".".join(map(str, path)) for path, _ in keras.tree.flatten_with_path(returned)]
    if isinstance(returned, Mapping) and all(paths):
        return paths
    if len(paths) == 1:
        return ["output"]
    return [*names] if len(names) == len(paths) else [f"output_{path or place}" for place, path in enumerate(paths)]
