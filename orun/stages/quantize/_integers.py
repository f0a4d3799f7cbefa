"""Weights stored as small integers, and what ONNX Runtime's quantizers refuse."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

from orun.errors import OrunError, StageFailed
from orun.stages._graph.io import iter_nodes, iter_tensors, load_graph
from orun.stages._graph.parameters import count_attributes
from orun.stages.contract import Context
from orun.stages.library_errors import failing
from orun.text.lists import join_few

SHOWN = 3  # weights in a message
SCALE = "_scale"  # ends the name of a value's scale
CANNOT = "ONNX Runtime cannot quantize the model so"
IN_FLOAT = frozenset({"GRU", "RNN"})  # recurrent operators without an integer form
ADVICE = "pre-processing before quantization"  # in a warning for every model; the parameter `preprocess` does it


def require_types(context: Context, op_types: Collection[str] | None) -> None:
    """Refuse an empty list of operator types, which the quantizers take for all types."""
    if op_types is not None and not op_types:
        raise context.failed("`op_types` is empty", hint="name the types to quantize, or leave it out for all types")


def is_quantized(
    op_types: Collection[str] | None, exclude: Collection[str], include: Collection[str], node: NodeProto
) -> bool:
    """Return whether the parameters of a kind leave a node to be quantized; all types by None, all names by nothing."""
    of_type = op_types is None or node.op_type in op_types
    return of_type and node.name not in exclude and (not include or node.name in include)


def find_integer_weights(model: ModelProto) -> list[str]:
    """Return the names of weights with several axes stored as integers of at most 16 bits, or as 8-bit floats."""
    types = (
        *(TensorProto.INT4, TensorProto.UINT4, TensorProto.INT8, TensorProto.UINT8),
        *(TensorProto.INT16, TensorProto.UINT16, TensorProto.FLOAT8E4M3FN),
    )
    return [tensor.name for tensor in iter_tensors(model) if tensor.data_type in types and len(tensor.dims) > 1]


def explain_weights(model: ModelProto) -> tuple[str, str] | None:
    """Return why a quantizer leaves weights of a model alone, and what to do; None if all are float32."""
    types: dict[int, str] = {
        TensorProto.DOUBLE: "float64",
        TensorProto.FLOAT16: "float16",
        TensorProto.BFLOAT16: "bfloat16",
    }
    wrong = [item for item in iter_tensors(model) if item.data_type in types and len(item.dims) > 1]
    if wrong:
        names = join_few([item.name for item in wrong], SHOWN)
        why = f"{names}: in {types[wrong[0].data_type]}, and only float32 is quantized"
        return why, "export the model in float32 (`module.float()` in PyTorch)"
    if quantized := find_integer_weights(model):
        return f"{join_few(quantized, SHOWN)}: quantized already", "begin with the float32 model"
    return None


def build_nothing_quantized_error(context: Context, model: ModelProto, why: str, hint: str) -> StageFailed:
    """Return the error that nothing could be quantized; weights in another type or place replace the reason."""
    if explained := explain_weights(model):
        why, hint = explained
    elif holders := _list_holders(model):
        kinds = " and ".join(holders)
        why = f"its weights are in {kinds}, which ONNX Runtime computes in float alone: int8 does not apply to them"
        hint = "leave the stage out"
    return context.failed("nothing in the model could be quantized", why=why, hint=hint)


def _list_holders(model: ModelProto) -> list[str]:
    """Return the operators that hold all weights of a model without float32 matrices: trees and linear models."""
    if any(item.data_type == TensorProto.FLOAT and len(item.dims) > 1 for item in iter_tensors(model)):
        return []
    return sorted({node.op_type for node in iter_nodes(model) if count_attributes(node)})


def require_integers(
    context: Context,
    model: ModelProto,
    why: str,
    hint: str = "look at `op_types` and `exclude`",
    before: Collection[str] = (),
) -> int:
    """Return the number of integer weights, which the log lists.

    Args:
        context: of the stage.
        model: the quantized model.
        why: what could have been quantized.
        hint: what to do if nothing was.
        before: integer weights of the model before.

    Raises:
        StageFailed: when the model has no other integer weights than before.
    """
    weights = find_integer_weights(model)
    if not {*weights} - {*before}:
        raise build_nothing_quantized_error(context, model, why, hint)
    context.log.info("%d quantized weights:\n  %s", len(weights), "\n  ".join(weights))
    if left := sorted({node.op_type for node in iter_nodes(model) if node.op_type in IN_FLOAT}):
        context.note(f"nodes of {' and '.join(left)} stay in float: ONNX Runtime has no such operator in 8 bits")
    return len(weights)


def require_scales(context: Context, model: ModelProto) -> None:
    """Refuse infinite ranges, such as those of a mask's minus infinity: their scale turns every value into 0.

    ONNX Runtime's quantizer accepts them, as of 1.31.

    Raises:
        StageFailed: when there are such ranges; names the values.
    """
    scales = [tensor for tensor in model.graph.initializer if tensor.name.endswith(SCALE)]
    if names := [name.removesuffix(SCALE) for name in find_not_finite(scales)]:
        raise context.failed(
            CANNOT,
            why=f"the range of {', '.join(names)} is infinite, and all values in it would become 0",
            hint="leave the nodes that yield them in float: `exclude`, or `op_types` without operators such as Add and "
            "Where",
        )


@contextmanager
def quantizing(context: Context, path: Path, hint: str) -> Iterator[None]:
    """Turn errors of a quantizer into failures of the stage, and keep its standing advice out of the log.

    For weights that are not finite the quantizer only has an assertion: the failure names them.
    """
    try:
        with failing(context, CANNOT, hint), _naming_weights(context, path), _without_advice():
            yield
    except StageFailed as failure:
        asserted = isinstance(failure.__cause__, AssertionError)
        names = find_not_finite(load_graph(path).graph.initializer, path.parent) if asserted else []
        if not names:
            raise
        raise context.failed(
            CANNOT,
            why=f"not all values of {', '.join(names)} are finite",
            hint="find out what made them so, or leave out the nodes that read them: `exclude`",
        ) from failure


@contextmanager
def _naming_weights(context: Context, path: Path) -> Iterator[None]:
    """Name weights that are not float32 instead of the quantizer's error, which is of many kinds for them."""
    try:
        yield
    except OrunError:
        raise
    except Exception as error:  # the quantizer raises errors of any class
        if not (explained := explain_weights(load_graph(path))):
            raise
        context.log.exception("%s", CANNOT)
        raise context.failed(CANNOT, why=explained[0], hint=explained[1]) from error


@contextmanager
def _without_advice() -> Iterator[None]:
    def is_wanted(record: logging.LogRecord) -> bool:
        return ADVICE not in record.getMessage()

    root = logging.getLogger()
    root.addFilter(is_wanted)
    try:
        yield
    finally:
        root.removeFilter(is_wanted)


def find_not_finite(weights: Iterable[TensorProto], folder: Path = Path()) -> list[str]:
    """Return the names of floating-point tensors that hold NaN or infinity, read one at a time from the folder."""
    arrays = ((weight.name, numpy_helper.to_array(weight, str(folder))) for weight in weights)
    return [name for name, array in arrays if array.dtype.kind == "f" and not np.isfinite(array).all()]
