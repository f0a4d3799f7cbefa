"""Fix dynamic axes to a size and infer the shape of every value.

Accelerators need fixed shapes, and `optimize/simplify` can fold more with them. ONNX Runtime's symbolic inference finds
the shapes, including those of its own operators; ONNX's inference is the fallback. The result is compared with the
model before it at the fixed sizes. `fixed_shapes` counts inner values with a fully known shape, `dynamic_values` the
inputs and outputs without.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated

from orun.core import dynamic_axes
from orun.core.metrics import HIGHER, LOWER, SIZE
from orun.stages._graph.input_domain import ComparedInputs
from orun.stages.common_parameters import Atol, Dims, Rtol
from orun.stages.contract import Context, Port, Spec
from orun.stages.name_checks import require_known
from orun.stages.params import Doc

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto
    from onnx.onnx_pb import TensorShapeProto


@dataclass(frozen=True)
class Params:
    """Parameters of `optimize/shapes`."""

    fix: Annotated[dict[str, int], Doc("Fixed size of dynamic axes, by name: `{batch: 1}`.")] = field(
        default_factory=dict
    )
    dims: Dims = field(default_factory=dict)
    inputs: ComparedInputs = None
    atol: Atol = 1e-5
    rtol: Rtol = 1e-3


SPEC = Spec(
    inputs={"model": Port(("onnx",), "The model to fix.")},
    tools=("onnxruntime|onnxruntime-gpu", "onnx", "sympy"),
    extra="cpu",
    interface="changed",
    preload=("onnx", "onnxruntime"),
    metrics={
        "size": SIZE,
        "nodes": LOWER,
        "fixed_shapes": HIGHER,
        "dynamic_values": LOWER,
        "max_abs_error": LOWER,
    },
)


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Write the model with its shapes to `context.result`."""
    import onnx

    from orun.stages._graph.agreement import Trial, check_against_input
    from orun.stages._graph.differences import Tolerance
    from orun.stages._graph.io import list_external_files, load_graph, save, weigh
    from orun.stages._graph.symbolic import infer_shapes

    model = load_graph(context.model())
    external = bool(list_external_files(model))
    _fix(context, model, params.fix)
    result = infer_shapes(context, model)
    onnx.load_external_data_for_model(result, str(context.model().parent))
    save(result, context.result, external=external)
    trial = Trial(params.dims, params.inputs)
    if trial.is_made_up:
        trial = replace(trial, dims={**params.dims, **{axis: [size] for axis, size in params.fix.items()}})
    error = check_against_input(
        context,
        "the model with fixed shapes",
        trial,
        Tolerance(params.atol, params.rtol),
        hint="the model itself may compute with the axis: check what it does at that size",
    )
    known = sum(_is_known(value) for value in result.graph.value_info)
    dynamic = sum(not _is_known(value) for value in (*result.graph.input, *result.graph.output))
    return {
        **weigh(context.result),
        "fixed_shapes": known,
        "dynamic_values": dynamic,
        "max_abs_error": error,
    }


def _fix(context: Context, model: ModelProto, sizes: Mapping[str, int]) -> None:
    inputs = {axis.dim_param for axis in _iter_axes(model.graph.input)}
    require_known("fix", sizes, dynamic_axes.list_free([sorted(inputs - {""})]))
    for name, size in sizes.items():
        if size < 0:
            raise context.failed(f"fix: the axis {name!r} cannot be {size}")
    for axis in _iter_axes((*model.graph.input, *model.graph.output)):
        if not axis.dim_param:
            continue
        left = dynamic_axes.substitute(axis.dim_param, sizes)
        if isinstance(left, int):
            axis.dim_value = left
        elif axis.dim_param in inputs:
            axis.dim_param = left
        else:
            axis.ClearField("dim_param")  # named axes of outputs follow from the fixed axes
    del model.graph.value_info[:]  # they hold the former axes


def _is_known(value: ValueInfoProto) -> bool:
    kind = value.type.tensor_type
    return kind.HasField("shape") and all(axis.HasField("dim_value") for axis in kind.shape.dim)


def _iter_axes(values: Iterable[ValueInfoProto]) -> Iterator[TensorShapeProto.Dimension]:
    for value in values:
        yield from value.type.tensor_type.shape.dim
