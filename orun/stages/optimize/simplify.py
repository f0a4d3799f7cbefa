"""Fold constants and remove nodes without effect, with onnxsim or onnxslim.

A weight that is stored once and also used transposed, such as a word table that is the last product, stays stored once.
The result is compared with the model before it on random and boundary inputs at several sizes of each dynamic axis.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

from orun.core.metrics import LOWER, SIZE
from orun.stages._graph.input_domain import ComparedInputs
from orun.stages.common_parameters import Atol, Dims, Rtol
from orun.stages.contract import Context, Port, Spec
from orun.stages.library_errors import failing
from orun.stages.params import Doc

if TYPE_CHECKING:
    from onnx import ModelProto

Pass = Literal[
    "eliminate_common_subexpression", "eliminate_consecutive_idempotent_ops", "eliminate_deadend",
    "eliminate_duplicate_initializer", "eliminate_identity", "eliminate_if_with_const_cond", "eliminate_nop_cast",
    "eliminate_nop_concat", "eliminate_nop_dropout", "eliminate_nop_expand", "eliminate_nop_flatten",
    "eliminate_nop_monotone_argmax", "eliminate_nop_pad", "eliminate_nop_reshape", "eliminate_nop_split",
    "eliminate_nop_transpose", "eliminate_nop_with_unit", "eliminate_shape_gather", "eliminate_shape_op",
    "eliminate_slice_after_shape", "eliminate_unused_initializer", "extract_constant_to_initializer",
    "fuse_add_bias_into_conv", "fuse_bn_into_conv", "fuse_concat_into_reshape", "fuse_consecutive_concats",
    "fuse_consecutive_log_softmax", "fuse_consecutive_reduce_unsqueeze", "fuse_consecutive_slices",
    "fuse_consecutive_squeeze_unsqueeze", "fuse_consecutive_squeezes", "fuse_consecutive_transposes",
    "fuse_consecutive_unsqueezes", "fuse_matmul_add_bias_into_gemm", "fuse_matmul_add_bias_into_gemm_batched",
    "fuse_pad_into_conv", "fuse_pad_into_pool", "fuse_qkv", "fuse_transpose_into_gemm", "rewrite_where",
]  # fmt: skip
Pattern = Literal[
    "EliminationConcat", "EliminationReshape", "EliminationReshapeAs", "EliminationSlice", "EliminationTranspose",
    "EliminationTransposeAsReshape", "EliminationTransposeViewTranspose", "EliminationUnsqueeze", "FusionConcatReshape",
    "FusionConvAdd", "FusionConvBN", "FusionConvMul", "FusionConvTransposeAdd", "FusionConvTransposeBN",
    "FusionConvTransposeMul", "FusionGemm", "FusionGemmAdd", "FusionGemmMul", "FusionPadConv", "FusionReduce",
]  # fmt: skip
SLIM_FROM = 7  # first operator set that onnxslim supports: it fails on older ones
OTHERWISE = "leave passes out, `skip: [...]`, or use `optimize/graph` with `level: basic` instead"
# Turns MatMul and Add into what `optimize/transformer` cannot read.
UNREADABLE: Pass = "fuse_matmul_add_bias_into_gemm_batched"


@dataclass(frozen=True)
class Params:
    """Options of the simplification and its check."""

    tool: Annotated[Literal["onnxsim", "onnxslim"], Doc("What simplifies; `onnxslim` needs the extra `slim`.")] = (
        "onnxsim"
    )
    skip: Annotated[
        list[Literal[Pass, Pattern]] | None,
        Doc(
            "Passes to leave out, by the tool's own names. When left out: of onnxsim the one that turns MatMul and Add "
            "into what `optimize/transformer` cannot read (`fuse_matmul_add_bias_into_gemm_batched`), of onnxslim none."
        ),
    ] = None
    dims: Dims = field(default_factory=dict)
    inputs: ComparedInputs = None
    atol: Atol = 1e-5
    rtol: Rtol = 1e-3


SPEC = Spec(
    inputs={"model": Port(("onnx",), "The model to simplify.")},
    tools=("onnxsim", "onnx", "onnxruntime|onnxruntime-gpu"),
    extra="cpu",
    preload=("onnx", "onnxruntime", "torch", "onnxsim"),  # onnxsim imports torch if it is installed
    metrics={"size": SIZE, "nodes": LOWER, "nodes_before": LOWER, "max_abs_error": LOWER},
)


def packages(params: Params, _root: Path) -> Mapping[str, str]:
    """Return the packages that a parameter needs."""
    return {"onnxslim": "`tool: onnxslim`"} if params.tool == "onnxslim" else {}


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Write the simplified model to `context.result`."""
    from orun.stages._graph.agreement import check_and_weigh
    from orun.stages._graph.io import load, load_graph, save
    from orun.stages._graph.nodes import set_items
    from orun.stages._graph.ties import find_tied, tie

    _require_own(context, params)
    model = load(_run_onnxsim(context, params)) if params.tool == "onnxsim" else _run_onnxslim(context, params)
    kept = [entry for entry in model.metadata_props if not entry.key.startswith("onnxsim.")]  # of its own report
    set_items(model.metadata_props, kept)
    if again := tie(model, find_tied(load_graph(context.model()))):
        context.log.info("stored once: %s", ", ".join(again))
    save(model, context.result)
    hint = "leave out the pass that does it: `skip: [...]`"
    return check_and_weigh(context, "the simplified model", params, hint=hint)


def _require_own(context: Context, params: Params) -> None:
    """Refuse a pass that the tool does not have: the tool would ignore it."""
    own = get_args(Pass if params.tool == "onnxsim" else Pattern)
    for name in params.skip or []:
        if name not in own:
            raise context.failed(f"skip: {params.tool} has no pass {name!r}", why=f"its passes are {', '.join(own)}")


def _run_onnxsim(context: Context, params: Params) -> Path:
    """Simplify by path, so that onnxsim need not hold a large model several times."""
    import onnxsim

    simplified = Path("simplified.onnx")
    with failing(context, "onnxsim cannot simplify the model", OTHERWISE):
        onnxsim.simplify(
            str(context.model()),
            output_path=str(simplified),
            skipped_optimizers=[UNREADABLE] if params.skip is None else params.skip,
            certify=False,
        )
    return simplified


def _run_onnxslim(context: Context, params: Params) -> ModelProto:
    from orun.stages._data.packages import need
    from orun.stages._graph.domains import find_standard_opset
    from orun.stages._graph.io import load, store_freely
    from orun.stages._graph.nodes import set_items
    from orun.stages._graph.signature import list_inputs

    need("onnxslim", "`tool: onnxslim`")
    import onnxslim

    model = load(context.model())
    inputs = list_inputs(model)
    store_freely(model)
    version = find_standard_opset(model)
    if version < SLIM_FROM:
        raise context.failed(
            f"onnxslim takes operator sets from {SLIM_FROM} on",
            why=f"the model uses {version or 'none of the standard'}",
            hint="put `convert/opset` before it, or simplify with `tool: onnxsim`",
        )
    with failing(context, "onnxslim cannot simplify the model", OTHERWISE):
        simplified: ModelProto = onnxslim.slim(model, skip_fusion_patterns=params.skip)
    set_items(simplified.graph.input, inputs)  # it drops inputs that no node reads
    return simplified
