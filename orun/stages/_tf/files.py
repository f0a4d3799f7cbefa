"""TensorFlow models in files: SavedModels, Keras files, frozen graphs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from orun.errors import UnknownName, UsageError
from orun.stages._graph.feeds import Input
from orun.stages._tf.function import Function
from orun.stages._tf.model import axes
from orun.stages._tf.wrap import signed

if TYPE_CHECKING:
    from orun.stages.convert.tensorflow import Params


def keras_model(path: Path) -> keras.Model:
    """A model that Keras saved. Code that is in the file, such as a lambda, is not run: Keras refuses it."""
    return keras.saving.load_model(path, compile=False, safe_mode=True)


def saved_model(folder: Path, params: Params) -> Function:
    """One signature of a SavedModel.

    Raises:
        UnknownName: when it has none of that name.
    """
    loaded = tf.saved_model.load(str(folder))
    if params.signature not in loaded.signatures:
        known = list(loaded.signatures)
        what = f"the SavedModel has no signature {params.signature!r}"
        raise UnknownName(what, params.signature, known, why=f"it has {', '.join(known) or 'none'}")
    return signed(loaded.signatures[params.signature], params.inputs, keep=loaded)


def frozen_graph(path: Path, params: Params) -> Function:
    """A graph whose variables are constants: placeholders are its inputs.

    Raises:
        UsageError: when there is nothing to take or to yield, or a tensor is not there.
    """
    graph = tf.compat.v1.GraphDef.FromString(path.read_bytes())
    placeholders = [node.name for node in graph.node if node.op == "Placeholder"]
    wanted = list(params.tensors) or [f"{name}:0" for name in _ends(graph)]
    if not placeholders or not wanted:
        raise UsageError("the graph has no placeholders to feed" if wanted else "the graph has nothing to yield")
    wrapped = tf.compat.v1.wrap_function(lambda: tf.graph_util.import_graph_def(graph, name=""), [])
    try:
        tensors = [wrapped.graph.as_graph_element(name) for name in wanted]
    except (KeyError, ValueError) as error:
        raise UsageError("the graph has no such tensor", why=str(error.args[0])) from error
    feeds = [wrapped.graph.as_graph_element(f"{name}:0") for name in placeholders]
    pruned = wrapped.prune(feeds, tensors)
    inputs = [_input(name, tensor, params) for name, tensor in zip(placeholders, feeds, strict=True)]
    names = [name.removesuffix(":0") for name in wanted]
    return Function(lambda *given: dict(zip(names, tf.nest.flatten(pruned(*given)), strict=True)), inputs, wrapped)


def _input(name: str, tensor: Any, params: Params) -> Input:
    shape = None if tensor.shape.rank is None else tensor.shape.as_list()
    dtype = "object" if tensor.dtype == tf.string else tensor.dtype.name
    return Input(name, dtype, axes(name, shape, params.inputs[name].shape if name in params.inputs else None))


def _ends(graph: Any) -> list[str]:
    """Names of the nodes that yield something which no other node takes."""
    taken = {name.lstrip("^").partition(":")[0] for node in graph.node for name in node.input}
    idle = {"Const", "NoOp", "Placeholder", "Assert"}
    return [node.name for node in graph.node if node.name not in taken and node.op not in idle]
