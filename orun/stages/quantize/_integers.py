"""Weights stored as small integers, and what ONNX Runtime's quantizers refuse."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from orun.errors import StageFailed
from orun.stages.contract import Context
from orun.stages.library_errors import failing

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

SCALE = "_scale"  # ends the name of a value's scale
CANNOT = "ONNX Runtime cannot quantize the model so"
ADVICE = "pre-processing before quantization"  # in what the quantizers warn of at every model; `preprocess` is ours


def require_types(context: Context, op_types: Collection[str] | None) -> None:
    """Refuse a list of no types of operators, which the quantizers take for all of them."""
    if op_types is not None and not op_types:
        raise StageFailed(
            context.stage, "`op_types` is empty", hint="name what is to be quantized, or leave it out for all types"
        )


def integer_weights(model: ModelProto) -> list[str]:
    """Names of the weights of more than one axis that are stored in at most 16 bits as integers, or as 8-bit floats."""
    from onnx import TensorProto

    from orun.stages._graph.io import tensors

    types = (
        *(TensorProto.INT4, TensorProto.UINT4, TensorProto.INT8, TensorProto.UINT8),
        *(TensorProto.INT16, TensorProto.UINT16, TensorProto.FLOAT8E4M3FN),
    )
    return [tensor.name for tensor in tensors(model) if tensor.data_type in types and len(tensor.dims) > 1]


def nothing(context: Context, model: ModelProto, why: str, hint: str) -> StageFailed:
    """That nothing could be quantized, and why: as a rule what is given, or that its weights are in float64."""
    from onnx import TensorProto

    from orun.stages._graph.io import tensors

    doubles = [one.name for one in tensors(model) if one.data_type == TensorProto.DOUBLE and len(one.dims) > 1]
    if doubles:
        why = f"{', '.join(doubles)}: in float64, and what is quantized is float32"
        hint = "export the model in float32 (`module.float()` in PyTorch)"
    return StageFailed(context.stage, "nothing in the model could be quantized", why=why, hint=hint)


def require_integers(context: Context, model: ModelProto, why: str) -> int:
    """How many such weights there are, listed in the log.

    Raises:
        StageFailed: when there are none; `why` says what could have been quantized.
    """
    weights = integer_weights(model)
    if not weights:
        raise nothing(context, model, why, "look at `op_types` and `exclude`")
    context.log.info("%d weights in few bits:\n  %s", len(weights), "\n  ".join(weights))
    return len(weights)


def require_scales(context: Context, model: ModelProto) -> None:
    """Refuse ranges that are infinite, as those of a mask's minus infinity: by such a scale every value becomes 0.

    Raises:
        StageFailed: names the values; ONNX Runtime's quantizer lets them pass, as of 1.31.
    """
    scales = [tensor for tensor in model.graph.initializer if tensor.name.endswith(SCALE)]
    if names := [name.removesuffix(SCALE) for name in not_finite(scales)]:
        raise StageFailed(
            context.stage,
            CANNOT,
            why=f"the range of {', '.join(names)} is infinite, and all that is in it would become 0",
            hint="leave the nodes that yield them in float: `exclude`, or `op_types` without such as Add and Where",
        )


@contextmanager
def quantizing(context: Context, path: Path, hint: str) -> Iterator[None]:
    """Let what a quantizer raises inside be a failure of the stage; of weights that are not finite it only asserts.

    What it advises at every model is kept out of the log.

    Args:
        context: of the stage.
        path: of the float model.
        hint: what to do instead.
    """
    from orun.stages._graph.io import load_graph

    try:
        with failing(context, CANNOT, hint), _without_advice():
            yield
    except StageFailed as failure:
        asserted = isinstance(failure.__cause__, AssertionError)
        names = not_finite(load_graph(path).graph.initializer, path.parent) if asserted else []
        if not names:
            raise
        raise StageFailed(
            context.stage,
            CANNOT,
            why=f"not all values of {', '.join(names)} are finite",
            hint="see what made them so, or leave the nodes that read them out: `exclude`",
        ) from failure


@contextmanager
def _without_advice() -> Iterator[None]:
    def heeded(record: logging.LogRecord) -> bool:
        return ADVICE not in record.getMessage()

    root = logging.getLogger()
    root.addFilter(heeded)
    try:
        yield
    finally:
        root.removeFilter(heeded)


def not_finite(weights: Iterable[TensorProto], folder: Path = Path()) -> list[str]:
    """Names of the floating-point tensors that hold NaN or infinity, read one at a time from the folder."""
    import numpy as np
    from onnx import numpy_helper

    arrays = ((one.name, numpy_helper.to_array(one, str(folder))) for one in weights)
    return [name for name, array in arrays if array.dtype.kind == "f" and not np.isfinite(array).all()]
