"""Artifacts upstream of a measurement."""

from __future__ import annotations

from orun.pipeline.model import Pipeline, Stage


def model_port(pipeline: Pipeline, stage: Stage) -> str:
    """The primary port of a stage when a model is connected to it; else empty."""
    ports = pipeline.kinds[stage.uses].spec.inputs
    first = next(iter(ports), "")
    return first if first in stage.needs and "onnx" in ports[first].accepts else ""


def upstream(pipeline: Pipeline, stage: Stage) -> tuple[Stage, ...]:
    """The stages whose models came to be the one that a stage looks at, the first made first."""
    found: list[Stage] = []
    while port := model_port(pipeline, stage):
        stage = pipeline.stage(stage.needs[port])
        if pipeline.kinds[stage.uses].spec.output != "onnx":
            break
        found.append(stage)
    return tuple(reversed(found))
