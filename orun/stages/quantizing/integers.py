"""Which weights of a model are stored as small integers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orun.errors import StageFailed
from orun.stages.contract import Context

if TYPE_CHECKING:
    from onnx import ModelProto


def integer_weights(model: ModelProto) -> list[str]:
    """Names of the weights of more than one axis that are stored in at most 16 bits as integers."""
    from onnx import TensorProto

    from orun.stages.onnx.io import tensors

    types = (
        *(TensorProto.INT4, TensorProto.UINT4, TensorProto.INT8, TensorProto.UINT8),
        *(TensorProto.INT16, TensorProto.UINT16),
    )
    return [tensor.name for tensor in tensors(model) if tensor.data_type in types and len(tensor.dims) > 1]


def require_integers(context: Context, model: ModelProto, why: str) -> int:
    """How many such weights there are, listed in the log.

    Raises:
        StageFailed: when there are none; `why` says what could have been quantized.
    """
    weights = integer_weights(model)
    if not weights:
        raise StageFailed(
            context.stage, "nothing in the model could be quantized", why=why, hint="look at `op_types` and `exclude`"
        )
    context.log.info("%d weights as integers:\n  %s", len(weights), "\n  ".join(weights))
    return len(weights)
