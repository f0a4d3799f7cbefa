"""TensorFlow models in files: SavedModels, Keras files, frozen graphs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import keras
import tensorflow as tf

from orun.errors import UnknownName, UsageError
from orun.stages._tf.function import Function
from orun.stages._tf.inputs import Declared
from orun.stages._tf.wrap import build_input, wrap_signature

SIGNATURE = "serving_default"  # TensorFlow's default signature of a SavedModel
SAVE_SIGNATURE = (
    "save it with a signature: tf.saved_model.save(model, folder, signatures={'serving_default': function})"
)


def load_keras_model(path: Path) -> keras.Model:
    """Load a model that Keras saved. Keras refuses code in the file, such as a lambda.

    Raises:
        UsageError: when a `.keras` file is no zip file.
    """
    if path.suffix.lower() == ".keras" and not is_zipfile(path):
        problem = f"{path.name} is no complete Keras file"
        hint = f"save the model again: model.save({path.name!r})"
        raise UsageError(problem, why="it is not a zip file: was writing it interrupted?", hint=hint)
    return keras.saving.load_model(path, compile=False, safe_mode=True)


def load_saved_model(folder: Path, declared: Declared, signature: str) -> Function:
    """Load one signature of a SavedModel.

    Without a name, it is the only signature, or TensorFlow's default.

    Raises:
        UnknownName: when it has no signature of that name.
    """
    loaded = tf.saved_model.load(str(folder))
    known = sorted(loaded.signatures)
    name = signature or (known[0] if len(known) == 1 else SIGNATURE)
    if name not in known:
        raise UnknownName(
            f"the SavedModel has no signature {name!r}",
            name,
            known,
            why=f"it has {', '.join(known) or 'none'}",
            hint=f"name one: `signature: {known[0]}`" if known else SAVE_SIGNATURE,
        )
    return wrap_signature(loaded.signatures[name], declared, keep=loaded)


def load_frozen_graph(path: Path, declared: Declared, tensors: Sequence[str]) -> Function:
    """Load a graph whose variables are constants and whose placeholders are its inputs.

    Raises:
        UsageError: when it has no placeholders or outputs, or a tensor is missing.
    """
    graph = tf.compat.v1.GraphDef.FromString(path.read_bytes())
    placeholders = [node.name for node in graph.node if node.op == "Placeholder"]
    wanted = list(tensors) or [f"{name}:0" for name in _list_unread_nodes(graph)]
    if not placeholders or not wanted:
        raise UsageError("the graph has no placeholders to feed" if wanted else "the graph has nothing to yield")
    wrapped = tf.compat.v1.wrap_function(lambda: tf.graph_util.import_graph_def(graph, name=""), [])
    try:
        outputs = [wrapped.graph.as_graph_element(name, allow_operation=False) for name in wanted]
    except (KeyError, ValueError) as error:
        raise UsageError("the graph has no such tensor", why=str(error.args[0])) from error
    feeds = [wrapped.graph.as_graph_element(f"{name}:0") for name in placeholders]
    pruned = wrapped.prune(feeds, outputs)
    inputs = [build_input(name, tensor, declared) for name, tensor in zip(placeholders, feeds, strict=True)]
    names = [name.removesuffix(":0") for name in wanted]
    return Function(lambda *values: dict(zip(names, tf.nest.flatten(pruned(*values)), strict=True)), inputs, wrapped)


def _list_unread_nodes(graph: Any) -> list[str]:
    read = {name.lstrip("^").partition(":")[0] for node in graph.node for name in node.input}
    without_result = {"Const", "NoOp", "Placeholder", "Assert"}
    return [node.name for node in graph.node if node.name not in read and node.op not in without_result]
