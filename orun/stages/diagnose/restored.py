"""Put nodes of the model before a stage into the model after it, to confirm that they cause the difference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from orun.core.metrics import LOWER, SIZE
from orun.stages.contract import Context, Port, Spec
from orun.stages.params import Doc

SPEC = Spec(
    inputs={
        "model": Port(("onnx",), "The model to change."),
        "reference": Port(("onnx",), "The model with the original nodes."),
    },
    tools=("onnxruntime|onnxruntime-gpu", "onnx", "numpy"),
    extra="cpu",
    preload=("numpy", "onnx", "onnxruntime"),
    metrics={"size": SIZE, "nodes": LOWER},
)


@dataclass(frozen=True)
class Params:
    """Parameters of `diagnose/restored`."""

    tensors: Annotated[list[str], Doc("Tensors of the reference that the reference's nodes compute in the result.")]
    nodes: Annotated[
        list[str], Doc("Nodes of either model; the reference's nodes replace the segments that hold them.")
    ] = field(default_factory=list)


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Write the model with the reference's nodes to `context.result`."""
    import onnx

    from orun.core.targets import Target
    from orun.diagnosis.findings import restore_segments
    from orun.diagnosis.segments import find_differing, find_segments
    from orun.diagnosis.values import Pair
    from orun.stages._graph.disk_weights import load_on_disk
    from orun.stages._graph.domains import tidy_domains
    from orun.stages._graph.io import save, weigh

    model, reference = (load_on_disk(context.model(port), f"{port}.data") for port in ("model", "reference"))
    pair = Pair(model, reference, (), Target("cpu"))
    shared = find_segments(pair.model, pair.reference)
    if unknown := set(params.tensors) - {segment.theirs.tensor for segment in shared}:
        raise context.failed(f"the models do not share {', '.join(sorted(unknown))}")
    chosen = [segment for segment in shared if segment.theirs.tensor in params.tensors]
    if params.nodes:
        for segment in find_differing(shared, pair.model, pair.reference):
            names = {node.name for node in (*segment.ours.nodes, *segment.theirs.nodes)}
            chosen += [segment] if names.intersection(params.nodes) else []
    if not chosen:
        raise context.failed(
            "no node of the model's file can be replaced",
            why=f"{', '.join(params.nodes)}: ONNX Runtime makes these nodes itself when it opens the model",
        )
    restored = restore_segments(pair, chosen)
    tidy_domains(restored)
    onnx.load_external_data_for_model(restored, ".")
    save(restored, context.result)
    return weigh(context.result)
