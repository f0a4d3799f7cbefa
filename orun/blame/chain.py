"""Chain of stages whose models lead to a measurement."""

from __future__ import annotations

from orun.pipeline.model import Pipeline, Stage


def model_port(pipeline: Pipeline, stage: Stage) -> str:
    """Return the primary port of a stage if a model is connected to it; else empty."""
    ports = pipeline.kinds[stage.uses].spec.inputs
    first = next(iter(ports), "")
    return first if first in stage.needs and "onnx" in ports[first].accepts else ""


def model_chain(pipeline: Pipeline, stage: Stage) -> tuple[Stage, ...]:
    """Return the stages whose models lead to a stage's primary input, in order."""
    chain: list[Stage] = []
    while port := model_port(pipeline, stage):
        stage = pipeline.stage(stage.needs[port])
        if pipeline.kinds[stage.uses].spec.output != "onnx":
            break
        chain.append(stage)
    return tuple(reversed(chain))
