"""Sources of a TensorFlow model: a function of the user, or a file."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orun.environment.processor import count_usable_cores
from orun.stages.contract import Context
from orun.stages.datasets import CODE
from orun.stages.library_errors import failing
from orun.stages.library_warnings import warnings_to
from orun.stages.params import Code

if TYPE_CHECKING:
    from orun.stages._tf.function import Function
    from orun.stages._tf.inputs import Declared
    from orun.stages._tf.lite import Lite

OWN_LAYERS = (
    "if it has layers of your own, return the model from a function of the file that defines them: "
    "`model: file.py:function`"
)
HINTS = {".keras": OWN_LAYERS, ".h5": f"save the model as .keras; {OWN_LAYERS}"}
FILES = ".keras, .h5, .tflite or .pb, or the folder of a SavedModel"


@dataclass(frozen=True)
class Source:
    """Source of a model.

    Attributes:
        name: of the function, file or folder, for messages.
        path: of the file or folder; not used for a function.
        declared: inputs that the pipeline declares.
        signature: of a SavedModel, the function to convert; when empty, the only one, or TensorFlow's default.
        tensors: of a frozen graph, the tensors that it yields; those that no node reads when empty.
    """

    name: str
    path: Path
    declared: Declared
    signature: str
    tensors: Sequence[str]


def load_source(
    context: Context, source: Source, *, timed: bool = False, threads: int | None = None
) -> Function | Lite:
    """Open the model as a function of named inputs, in inference mode, on the CPU.

    A `timed` model is to be fast, instead of having the same results every time; its number of threads is TensorFlow's
    own choice when None.

    Raises:
        StageFailed: when it is no model, cannot be read, or neither it nor the pipeline declares its inputs.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # before TensorFlow logs how it was built
    import keras
    import tensorflow as tf

    tf.get_logger().setLevel(logging.ERROR)
    if keras.backend.backend() != "tensorflow":
        raise context.failed(
            f"Keras runs on {keras.backend.backend()} here, and tf2onnx converts what runs on TensorFlow",
            hint="set KERAS_BACKEND=tensorflow, or the `backend` in keras.json",
        )
    tf.config.set_visible_devices([], "GPU")
    if threads:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
    keras.utils.set_random_seed(context.seed)  # a function may initialize weights at random
    if not timed:
        tf.config.experimental.enable_op_determinism()  # or train them
    with warnings_to(context.log):
        return _open(context, source, (threads or count_usable_cores()) if timed else 1)


def _open(context: Context, source: Source, threads: int) -> Function | Lite:
    from orun.stages._tf import files
    from orun.stages._tf.lite import Lite
    from orun.stages._tf.wrap import wrap

    if CODE.fullmatch(source.name):
        model = context.load(Code(source.name), ())()
        with failing(context, f"TensorFlow cannot trace what {source.name} returns", "look at `inputs`"):
            return wrap(context, model, source.name, source.declared)
    readers: Mapping[str, Callable[[Path], Function | Lite]] = {
        ".tflite": lambda file: Lite(file, source.declared, threads),
        ".pb": lambda file: files.load_frozen_graph(file, source.declared, source.tensors),
        ".keras": lambda file: wrap(context, files.load_keras_model(file), source.name, source.declared),
        ".h5": lambda file: wrap(context, files.load_keras_model(file), source.name, source.declared),
        "folder": lambda folder: files.load_saved_model(folder, source.declared, source.signature),
    }
    form = "folder" if source.path.is_dir() else source.path.suffix.lower()
    reader = readers.get(form)
    if reader is None:
        raise context.failed(f"{source.name} is no model that TensorFlow can read", why=f"expected {FILES}")
    with failing(context, f"TensorFlow cannot read {source.name}", HINTS.get(form, "")):
        return reader(source.path)
