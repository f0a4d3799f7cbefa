"""Fuse the parts of a transformer (attention, norms, GELU, embeddings) into single operators of ONNX Runtime.

The log lists the fused operators layer by layer, and each unfused attention with the reason, which is also a note of
the run. `fused.Attention` and similar metrics count fused operators. `attentions` counts attentions by what they
compute: a softmax over the product of queries and keys, multiplied by values. Anything may stand between these but a
layer with weights, such as one that mixes the heads ("talking heads"). `attentions_left` counts unfused ones; a gate
can hold it at 0. `expect: {Attention: 12}` fails the stage if the result has another number. The result is compared
with the model before it on random and boundary inputs at several sizes of each dynamic axis, with masks that hide any
position. A wrong fusion fails the stage.

`method: rules` fuses every attention of these models of `transformers` 5, with eager or sdpa attention, from both of
PyTorch's exporters:

| family | attention | normalization | other |
|---|---|---|---|
| BERT, RoBERTa, DistilBERT | Attention | EmbedLayerNormalization, SkipLayerNormalization | BiasGelu |
| ALBERT, ELECTRA, MPNet | Attention | EmbedLayerNormalization, SkipLayerNormalization | BiasGelu, FastGelu |
| DeBERTa 1 to 3 | MultiHeadAttention | SkipLayerNormalization | BiasGelu |
| ModernBERT | MultiHeadAttention | SkipLayerNormalization | RotaryEmbedding, Gelu |
| MobileBERT | MultiHeadAttention | | |
| GPT-2 | Attention; with its cache: MultiHeadAttention | SkipLayerNormalization | FastGelu |
| OPT | Attention | SkipLayerNormalization | |
| BLOOM | MultiHeadAttention | SkipLayerNormalization | FastGelu |
| GPT-NeoX | MultiHeadAttention | SkipLayerNormalization | RotaryEmbedding, BiasGelu |
| Llama, Mistral, Phi 3 | GroupQueryAttention | SkipSimplifiedLayerNormalization | RotaryEmbedding |
| Llama with its cache | MultiHeadAttention | SkipSimplifiedLayerNormalization | RotaryEmbedding |
| Qwen 3, Gemma 2 and 3 | GroupQueryAttention | SkipSimplifiedLayerNormalization | RotaryEmbedding |
| ViT, Swin, Whisper's encoder, wav2vec2 | Attention | SkipLayerNormalization | BiasGelu |
| SegFormer | Attention, MultiHeadAttention | SkipLayerNormalization | Gelu |
| CLIP | Attention | SkipLayerNormalization | QuickGelu |
| T5 | Attention; across: MultiHeadAttention | SkipSimplifiedLayerNormalization | |
| BART | Attention; across: MultiHeadAttention | EmbedLayerNormalization, SkipLayerNormalization | BiasGelu |

Terms added to the scores (a mask, the bias of ALiBi, relative positions of T5, MPNet, Swin or DeBERTa) become the
operator's attention bias.

Where heads of queries share keys and values, GroupQueryAttention reads these once instead of repeating them, which
takes 2 to 25 % less time on the CPU. Only it supports the soft cap of Gemma 2. It needs as many keys as queries, so a
model with a cache gets MultiHeadAttention, and a head size that is a multiple of 8; on GPUs it supports float16 only.
`disable: [grouped_query_attention]` turns it off.

A word table that is also the last product, transposed, stays stored once. ONNX's own Attention, as PyTorch exports it
for operator set 23, is fused further or kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from orun.core.metrics import COUNT, LOWER, SIZE
from orun.errors import StageFailed
from orun.stages._graph.input_domain import ComparedInputs
from orun.stages.common_parameters import Atol, Dims, Rtol
from orun.stages.contract import Context, Port, Spec
from orun.stages.optimize._fusion import COUNTED, Settings
from orun.stages.params import Doc

if TYPE_CHECKING:
    from orun.stages.optimize._fusion.methods import FusedModel

MEMORY_FACTOR = 3.0  # peak memory as a multiple of the weights that fusions read and make


@dataclass(frozen=True)
class Params(Settings):
    """Parameters of `optimize/transformer`."""

    expect: Annotated[
        dict[str, int], Doc("Number of nodes that the result must have, by operator type: `{Attention: 12}`.")
    ] = field(default_factory=dict)
    dims: Dims = field(default_factory=dict)
    inputs: ComparedInputs = None
    atol: Atol = 1e-4
    rtol: Rtol = 1e-3


SPEC = Spec(
    inputs={"model": Port(("onnx",), "The model to fuse.")},
    tools=("onnxruntime|onnxruntime-gpu", "onnx", "onnx-ir", "ml-dtypes", "numpy", "sympy"),
    extra="cpu",
    preload=("onnx", "onnx_ir", "onnxruntime", "onnxruntime.transformers.optimizer"),
    metrics={
        "size": SIZE,
        **dict.fromkeys(("nodes", "nodes_before", "max_abs_error", "attentions_left"), LOWER),
        **dict.fromkeys(("attentions", *(f"fused.{name}" for name in COUNTED)), COUNT),
    },
)


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Write the fused model to `context.result`."""
    from orun.stages._graph.io import save, weigh
    from orun.stages.memory_headroom import require_memory
    from orun.stages.optimize._fusion.census import ATTENTION, count_operators, describe_layers
    from orun.stages.optimize._fusion.methods import fuse

    require_memory(context, MEMORY_FACTOR)
    refused: StageFailed | None = None
    for candidate in fuse(context, params):
        fused = count_operators(candidate.model)
        context.log.info("fused by method %s", candidate.method)
        for line in (*describe_layers(candidate.model), *_describe_unfused(candidate)):
            context.log.info("%s", line)
        _require_expected(context, params, fused, candidate)
        save(candidate.load_weights(), context.result)
        try:
            error = _compare(context, params)
        except StageFailed as failure:
            if params.method != "auto":
                raise
            context.log.warning("method %s: %s", candidate.method, failure)
            refused = refused or failure
            continue
        attentions = sum(fused[name] for name in ATTENTION) + len(candidate.unfused)
        if note := _describe_missing(params, fused, candidate, attentions):
            context.note(note)
        return {
            **weigh(context.result),
            "nodes_before": weigh(context.model())["nodes"],
            "max_abs_error": error,
            "attentions": attentions,
            "attentions_left": len(candidate.unfused),
            **{f"fused.{name}": fused[name] for name in COUNTED},
        }
    raise refused or context.failed("nothing fused the model")


def _describe_unfused(candidate: FusedModel) -> Iterator[str]:
    for name, reason in candidate.unfused.items():
        yield f"in pieces: the attention that yields {name}: {reason}"


def _describe_missing(params: Params, fused: Mapping[str, int], candidate: FusedModel, attentions: int) -> str:
    """Return a sentence on fusions that are missing; empty if none is."""
    if candidate.unfused and "attention" not in params.disable:
        return (
            f"method {candidate.method} left {len(candidate.unfused)} of {attentions} attentions in pieces: "
            f"{'; '.join(dict.fromkeys(candidate.unfused.values()))}"
        )
    if not params.disable and not any(fused[name] for name in COUNTED):
        return f"method {candidate.method} found nothing to fuse in the model"
    return ""


def _compare(context: Context, params: Params) -> float:
    from orun.stages._graph.agreement import Trial, check_against_input
    from orun.stages._graph.differences import Tolerance

    return check_against_input(
        context,
        "the fused model",
        Trial(params.dims, params.inputs, "right-padded" if params.mask == "right-padded" else "any"),
        Tolerance(params.atol, params.rtol),
        hint="leave out the fusion that does it: `disable: [...]`; check `mask`, `num_heads` and `model_type`, or try "
        "another `method`",
    )


def _require_expected(context: Context, params: Params, fused: Mapping[str, int], candidate: FusedModel) -> None:
    missed = {name: number for name, number in params.expect.items() if fused.get(name, 0) != number}
    if missed:
        got = ", ".join(f"{name} {fused[name]}" for name in sorted(fused) if name in COUNTED) or "nothing"
        left = "".join(f"\n{line}" for line in _describe_unfused(candidate))
        raise context.failed(
            ", ".join(f"expected {number} {name}, got {fused.get(name, 0)}" for name, number in missed.items()),
            why=f"fused by method {candidate.method}: {got}{left}",
            hint="correct `expect`, try another `method`, or fuse before what takes the layers apart; "
            "the log lists what was fused",
        )
