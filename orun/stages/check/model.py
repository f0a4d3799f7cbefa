"""Check that a model is valid, and that its consumer can load it.

ONNX's checker examines every operator, type and shape, with strict shape inference. ONNX Runtime opens the model on the
target, which shows that it has a kernel for each operator. Parameters state what the consumer of the model supports:
operator sets, IR version and operator domains. All problems are reported, not only the first.

The artifact holds `model.json`: operator sets, operators outside the standard, and values of unknown shape.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from orun.core.metrics import COUNT, LOWER
from orun.errors import OrunError
from orun.stages._graph.domains import STANDARD, find_standard_opset
from orun.stages.contract import Context, Port, Spec
from orun.stages.params import Doc, Range, TargetName

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

MADE_UP = "unk__"  # prefix of the names that shape inference gives to unknown axes


@dataclass(frozen=True)
class Params:
    """Parameters of `check/model`."""

    target: Annotated[TargetName | None, Doc("Target on which it must load; the CPU when left out.")] = None
    max_opset: Annotated[int | None, Doc("Newest version of the standard operator set."), Range(1)] = None
    min_opset: Annotated[int | None, Doc("Oldest version of the standard operator set."), Range(1)] = None
    max_ir: Annotated[int | None, Doc("Newest version of the file format (IR)."), Range(3)] = None
    domains: Annotated[
        list[str] | None,
        Doc("Operator domains allowed besides the standard's (`com.microsoft`); any when left out."),
    ] = None


SPEC = Spec(
    inputs={"model": Port(("onnx",), "The model to check.")},
    output="metrics",
    tools=("onnx", "onnxruntime|onnxruntime-gpu"),
    extra="cpu",
    stage_class="device",
    preload=("onnx", "onnxruntime"),
    metrics={"opset": COUNT, "ir_version": COUNT, "custom_nodes": LOWER, "unknown_shapes": LOWER},
    guards=True,
)


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Check the model, and write a report."""
    from orun.stages._graph.io import load_graph

    if params.min_opset is not None and params.max_opset is not None and params.min_opset > params.max_opset:
        raise context.failed(
            f"no model can pass: `min_opset` is {params.min_opset}, and `max_opset` {params.max_opset}",
            hint="leave one of them out",
        )
    model = load_graph(context.model())
    problems = [*_iter_exceeded_limits(model, params), *_iter_invalid(context), *_iter_unloadable(context)]
    if problems:
        raise context.failed(
            f"the model has {len(problems)} problem{'s' if len(problems) > 1 else ''}",
            why="\n".join(problems),
            hint="fix it where it is exported; `convert/opset` changes the operator set",
        )
    custom = _count_custom(model)
    unknown = _list_unknown_shapes(context)
    report = {
        "ir_version": model.ir_version,
        "opsets": {item.domain or "ai.onnx": item.version for item in model.opset_import},
        "custom_operators": custom,
        "unknown_shapes": unknown,
    }
    (context.output / "model.json").write_text(json.dumps(report, indent=2, sort_keys=True) + "\n", "utf-8")
    return {
        "opset": find_standard_opset(model),
        "ir_version": model.ir_version,
        "custom_nodes": sum(custom.values()),
        "unknown_shapes": len(unknown),
    }


def _count_custom(model: ModelProto) -> dict[str, int]:
    """Count each operator outside the standard, without the model's own functions."""
    from orun.stages._graph.io import iter_nodes

    own = {(function.domain, function.name) for function in model.functions}
    return dict(
        Counter(
            f"{node.domain}.{node.op_type}"
            for node in iter_nodes(model)
            if node.domain not in STANDARD and (node.domain, node.op_type) not in own
        )
    )


def _iter_exceeded_limits(model: ModelProto, params: Params) -> Iterator[str]:
    opset = find_standard_opset(model)
    if params.max_opset is not None and opset > params.max_opset:
        yield f"operator set {opset} is newer than max_opset {params.max_opset}"
    if params.min_opset is not None and opset < params.min_opset:
        yield f"operator set {opset} is older than min_opset {params.min_opset}"
    if params.max_ir is not None and model.ir_version > params.max_ir:
        yield f"IR version {model.ir_version} is newer than max_ir {params.max_ir}"
    if params.domains is not None:
        for name, number in sorted(_count_custom(model).items()):
            if name.rpartition(".")[0] not in params.domains:
                allowed = f"none of {', '.join(params.domains)}" if params.domains else "not the standard's"
                yield f"{number} x {name}: its domain is {allowed}"


def _iter_invalid(context: Context) -> Iterator[str]:
    from onnx import checker, shape_inference

    from orun.stages._graph.validity import check

    try:
        check(context.model(), full=True)
    except (checker.ValidationError, shape_inference.InferenceError) as error:
        yield str(error).strip()


def _iter_unloadable(context: Context) -> Iterator[str]:
    from orun.measure.session import open_session

    try:
        open_session(context.model(), context.model_target)
    except OrunError as error:
        yield str(error)


def _list_unknown_shapes(context: Context) -> list[str]:
    """Return values whose shape cannot be inferred: they have no rank, or an axis with neither size nor name."""
    import onnx

    inferred = "inferred.onnx"  # by path, for models of any size
    # Strict inference fails behind operators that it does not know, such as ai.onnx.ml's trees.
    onnx.shape_inference.infer_shapes_path(str(context.model()), inferred, strict_mode=False, data_prop=True)
    graph = onnx.load(inferred, load_external_data=False).graph
    known = {value.name for value in (*graph.value_info, *graph.output) if _is_known(value)}
    return sorted({name for node in graph.node for name in node.output if name and name not in known})


def _is_known(value: ValueInfoProto) -> bool:
    kind = value.type
    if not kind.HasField("tensor_type"):
        return True
    axes = kind.tensor_type.shape.dim
    return kind.tensor_type.HasField("shape") and all(
        axis.HasField("dim_value") or (axis.dim_param and not axis.dim_param.startswith(MADE_UP)) for axis in axes
    )
