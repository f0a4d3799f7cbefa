"""Put parts of the model before a stage into the one after it, to see that they make the difference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from orun.errors import StageFailed
from orun.metrics import Metric
from orun.stages.contract import Context, Port, Spec
from orun.stages.params import Doc

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


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Write the model with the reference's nodes to `context.result`."""
    from orun.diagnosis.findings import Pair, put_right
    from orun.diagnosis.segments import segments
    from orun.stages.domains import tidy_domains
    from orun.stages.onnx_io import load, save, weigh
    from orun.targets import Target

    pair = Pair(load(context.model()), load(context.model("reference")), (), Target("cpu"))
    found = {one.theirs.tensor: one for one in segments(pair.model, pair.reference)}
    if unknown := [name for name in params.tensors if name not in found]:
        raise StageFailed(context.stage, f"the models do not share {', '.join(unknown)}")
    made = put_right(pair, [found[name] for name in params.tensors])
    tidy_domains(made)
    save(made, context.result)
    return weigh(context.result)
