"""Fuse the parts of a transformer (attention, layer norms, GELU, embeddings) into single operators of ONNX Runtime.

The log lists what was fused, layer by layer; `fused.Attention` and the like count it. The result is compared with the
model before it on random and boundary inputs at several sizes of each dynamic axis.

Attention is recognised best in a TorchScript export with eager attention (`attn_implementation="eager"`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

from orun.errors import StageFailed
from orun.metrics import Metric
from orun.stages.agreement import Atol, Dims, Inputs, Rtol
from orun.stages.contract import Context, Port, Spec
from orun.stages.params import Doc, Range

if TYPE_CHECKING:
    from onnx import ModelProto
    from onnxruntime.transformers.fusion_options import FusionOptions

FUSED = (
    "Attention", "MultiHeadAttention", "EmbedLayerNormalization", "LayerNormalization", "SkipLayerNormalization",
    "SimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization", "RotaryEmbedding", "Gelu", "BiasGelu",
    "FastGelu",
)  # fmt: skip


@dataclass(frozen=True)
class Params:
    """Which fusions, and what must come of them."""

    model_type: Annotated[
        Literal[
            "bart", "bert", "bert_keras", "bert_tf", "clip", "conformer", "gpt2", "gpt2_tf", "gpt_neox", "mmdit", "phi",
            "qwen3", "sam2", "swin", "t5", "tnlr", "unet", "vae", "vit",
        ],
        Doc("Which family's patterns to look for; RoBERTa and DistilBERT are `bert`."),
    ] = "bert"  # fmt: skip
    num_heads: Annotated[
        int | None, Doc("Attention heads of a layer; read from the graph when left out."), Range(1)
    ] = None
    hidden_size: Annotated[int | None, Doc("Width of a layer; read from the graph when left out."), Range(1)] = None
    level: Annotated[
        Literal["disable", "basic", "extended"], Doc("ONNX Runtime's own optimizations that go before the fusions.")
    ] = "basic"
    mask: Annotated[
        Literal["any", "right-padded", "none"],
        Doc(
            "What the attention mask may be. `right-padded` is faster where the padding stands behind the text, and "
            "wrong anywhere else; `none` drops the mask."
        ),
    ] = "any"
    multi_head_attention: Annotated[
        bool, Doc("Fuse to MultiHeadAttention, which leaves the projections apart, instead of Attention.")
    ] = False
    disable: Annotated[
        list[
            Literal[
                "attention", "bias_gelu", "bias_skip_layer_norm", "embed_layer_norm", "gelu", "layer_norm",
                "qordered_matmul", "rotary_embeddings", "shape_inference", "skip_layer_norm",
            ]
        ],
        Doc("Fusions to leave out."),
    ] = field(default_factory=list)  # fmt: skip
    expect: Annotated[
        dict[str, int], Doc("How many nodes of each operator type the result must have: `{Attention: 12}`.")
    ] = field(default_factory=dict)
    dims: Dims = field(default_factory=dict)
    inputs: Inputs = None
    atol: Atol = 1e-4
    rtol: Rtol = 1e-3


SPEC = Spec(
    inputs={"model": Port(("onnx",), "The model to fuse.")},
    tools=("onnxruntime|onnxruntime-gpu", "onnx", "sympy"),
    extra="cpu",
    preload=("onnx", "onnxruntime", "onnxruntime.transformers.optimizer"),
    metrics=("size", "nodes", "nodes_before", "max_abs_error", *(f"fused.{name}" for name in FUSED)),
)


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Write the fused model to `context.result`."""
    from orun.stages.agreement import Tolerance, Trial, check_against_input
    from orun.stages.fusion import count
    from orun.stages.onnx_io import save, weigh

    model = _fuse(context, params)
    fused = count(model)
    _report(context, model)
    _require(context, params.expect, fused)
    save(model, context.result)
    error = check_against_input(
        context,
        "the fused model",
        Trial(params.dims, params.inputs, "right-padded" if params.mask == "right-padded" else "any"),
        Tolerance(params.atol, params.rtol),
        hint="leave out the fusion that does it: `disable: [...]`; check `mask`, `num_heads` and `model_type`",
    )
    return {
        **weigh(context.result),
        "nodes_before": weigh(context.model())["nodes"],
        "max_abs_error": error,
        **{f"fused.{name}": Metric(fused[name]) for name in FUSED},
    }


def _fuse(context: Context, params: Params) -> ModelProto:
    from onnxruntime.transformers.optimizer import optimize_by_fusion

    from orun.stages.domains import tidy_domains
    from orun.stages.fusion import heads
    from orun.stages.onnx_io import load
    from orun.stages.ort_graph import IN_THE_WAY, optimized
    from orun.stages.symbolic import taught

    taught()
    model = load(context.model()) if params.level == "disable" else optimized(context.model(), params.level, IN_THE_WAY)
    found = heads(model)
    num_heads, hidden_size = params.num_heads or found[0], params.hidden_size or found[1]
    context.log.info("%d attention heads, hidden size %d", num_heads, hidden_size)
    if (num_heads == 0) != (hidden_size == 0) or (num_heads and hidden_size % num_heads):
        raise StageFailed(
            context.stage,
            f"{num_heads} attention heads and hidden size {hidden_size} do not go together",
            hint="give both `num_heads` and `hidden_size`, or none of them",
        )
    try:
        fused = optimize_by_fusion(model, params.model_type, num_heads, hidden_size, _options(params))
    except Exception as error:  # its pattern matching raises whatever a graph that it did not expect leads to
        context.log.exception("the optimizer failed")
        raise StageFailed(
            context.stage,
            f"ONNX Runtime's optimizer cannot handle the model as {params.model_type}",
            why=f"{type(error).__name__}: {error}",
            hint="try another `model_type`, or leave fusions out: `disable: [...]`; the log has the whole traceback",
        ) from error
    result: ModelProto = fused.model
    tidy_domains(result)
    return result


def _options(params: Params) -> FusionOptions:
    from onnxruntime.transformers.fusion_options import FusionOptions

    options = FusionOptions(params.model_type)
    options.use_multi_head_attention = params.multi_head_attention
    options.use_raw_attention_mask(params.mask != "right-padded")
    if params.mask == "none":
        options.disable_attention_mask()
    for name in params.disable:
        setattr(options, f"enable_{name}", False)
    return options


def _report(context: Context, model: ModelProto) -> None:
    from orun.stages.onnx_io import nodes

    for node in nodes(model):
        if node.op_type in FUSED:
            context.log.info("%s: %s", node.op_type, node.output[0])


def _require(context: Context, expected: Mapping[str, int], fused: Mapping[str, int]) -> None:
    missed = {name: number for name, number in expected.items() if fused.get(name, 0) != number}
    if missed:
        got = ", ".join(f"{name} {fused[name]}" for name in sorted(fused) if name in FUSED) or "nothing"
        raise StageFailed(
            context.stage,
            ", ".join(f"expected {number} {name}, got {fused.get(name, 0)}" for name, number in missed.items()),
            why=f"fused: {got}",
            hint="export by TorchScript with eager attention; keep MatMul and Add apart in `optimize/simplify`",
        )
