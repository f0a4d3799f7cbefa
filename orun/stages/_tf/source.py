"""Sources of a TensorFlow model: a function of the user's, or a file."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from orun.errors import StageFailed
from orun.stages.contract import Context
from orun.stages.convert.tensorflow import SIGNATURE
from orun.stages.datasets import CODE
from orun.stages.library_errors import failing
from orun.stages.library_warnings import warnings_to
from orun.stages.params import Code, FilePath

if TYPE_CHECKING:
    from orun.stages._tf.model import Model
    from orun.stages.convert.tensorflow import Params

FILES = ".keras, .h5, .tflite or .pb, or the folder of a SavedModel"
DATA = (".keras", ".h5", ".tflite")  # those of which nothing can run code or write files


def open_model(context: Context, params: Params) -> Model:
    """The model as a function of named inputs, in inference mode, on the CPU.

    Raises:
        StageFailed: when it is no model, cannot be read, or does not say what it takes and the pipeline neither.
    """
    os.environ.setdefault(
        "TF_CPP_MIN_LOG_LEVEL", "2"
    )  # read when TensorFlow is first used: what it is built for, and such
    import keras
    import tensorflow as tf

    tf.get_logger().setLevel(logging.ERROR)
    if keras.backend.backend() != "tensorflow":
        raise StageFailed(
            context.stage,
            f"Keras runs on {keras.backend.backend()} here, and tf2onnx converts what runs on TensorFlow",
            hint="set KERAS_BACKEND=tensorflow, or the `backend` in keras.json",
        )
    tf.config.set_visible_devices([], "GPU")
    keras.utils.set_random_seed(context.seed)  # the function may make weights up
    tf.config.experimental.enable_op_determinism()  # or train them
    with warnings_to(context.log):
        return _opened(context, params)


def _opened(context: Context, params: Params) -> Model:
    from orun.stages._tf import files
    from orun.stages._tf.lite import Lite
    from orun.stages._tf.wrap import wrap

    path = _trained(context) if params.model is None else context.root / params.model
    params = replace(params, model=params.model or FilePath(path.name))  # for messages
    _require_read(context, params, path)
    if CODE.fullmatch(str(params.model)):
        made = context.load(Code(str(params.model)), ())()
        with failing(context, f"TensorFlow cannot trace what {params.model} returns", "look at `inputs`"):
            return wrap(context, made, params)
    readers: Mapping[str, Callable[[Path], Model]] = {
        ".tflite": lambda file: Lite(file, params.inputs),
        ".pb": lambda file: files.frozen_graph(file, params),
        ".keras": lambda file: wrap(context, files.keras_model(file), params),
        ".h5": lambda file: wrap(context, files.keras_model(file), params),
        "": lambda folder: files.saved_model(folder, params),
    }
    reader = readers.get("" if path.is_dir() else path.suffix.lower() or "?")
    if reader is None:
        raise StageFailed(
            context.stage, f"{params.model} is no model that TensorFlow can read", why=f"expected {FILES}"
        )
    with failing(context, f"TensorFlow cannot read {params.model}"):
        return reader(path)


def _trained(context: Context) -> Path:
    """The one file of a model among what the stage before this one left."""
    folder = context.inputs["trained"]
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in DATA and path.is_file())
    if len(found) != 1:
        names = ", ".join(str(path.relative_to(folder)) for path in found) or "none"
        raise StageFailed(
            context.stage, f"the input `trained` must hold one model: {', '.join(DATA)}", why=f"found {names}"
        )
    return found[0]


def _require_read(context: Context, params: Params, path: Path) -> None:
    """Refuse parameters for another form of model, which nothing would read."""
    coded = CODE.fullmatch(str(params.model)) is not None
    for name, read, form in (
        ("signature", params.signature == SIGNATURE or (not coded and path.is_dir()), "the folder of a SavedModel"),
        ("tensors", not params.tensors or (not coded and path.suffix.lower() == ".pb"), "a frozen graph, .pb"),
    ):
        if not read:
            raise StageFailed(context.stage, f"`{name}` is for {form}, and {params.model} is another form of model")
