"""Put parts of the model before a stage into the one after it, to see that they make the difference."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from orun.core.metrics import Metric
from orun.errors import StageFailed
from orun.stages.contract import Context, Port, Spec
from orun.stages.params import Doc

if TYPE_CHECKING:
    from orun.diagnosis.segments import Segment

SPEC = Spec(
    inputs={
        "model": Port(("onnx",), "The model that is put right."),
        "reference": Port(("onnx",), "The model whose nodes it gets."),
    },
    tools=("onnxruntime|onnxruntime-gpu", "onnx", "numpy"),
    extra="cpu",
    preload=("numpy", "onnx", "onnxruntime"),
    metrics=("size", "nodes"),
)


@dataclass(frozen=True)
class Params:
    """Which parts."""

    tensors: Annotated[list[str], Doc("Tensors of the reference that its own nodes compute in the result.")]
    nodes: Annotated[list[str], Doc("Nodes of either model: where they are, the reference's compute the result.")] = (
        field(default_factory=list)
    )


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Write the model with the reference's nodes to `context.result`."""
    from orun.core.targets import Target
    from orun.diagnosis.findings import put_right
    from orun.diagnosis.segments import differing, segments
    from orun.diagnosis.values import Pair
    from orun.stages._graph.apart import load_apart, load_whole
    from orun.stages._graph.domains import tidy_domains
    from orun.stages._graph.io import save, weigh

    model, reference = (load_apart(context.model(port), f"{port}.data") for port in ("model", "reference"))
    pair = Pair(model, reference, (), Target("cpu"))
    found = segments(pair.model, pair.reference)
    if unknown := set(params.tensors) - {one.theirs.tensor for one in found}:
        raise StageFailed(context.stage, f"the models do not share {', '.join(sorted(unknown))}")
    chosen = [one for one in found if one.theirs.tensor in params.tensors]
    if params.nodes:
        chosen += [one for one in differing(found, pair.model, pair.reference) if _has(one, params.nodes)]
    if not chosen:
        raise StageFailed(
            context.stage,
            "no part of the model's file can be put right",
            why=f"{', '.join(params.nodes)}: ONNX Runtime makes these nodes itself when it opens the model",
        )
    made = put_right(pair, chosen)
    tidy_domains(made)
    load_whole(made)
    save(made, context.result)
    return weigh(context.result)


def _has(segment: Segment, names: Collection[str]) -> bool:
    return any(node.name in names for node in (*segment.ours.nodes, *segment.theirs.nodes))
