"""Graph of a pipeline as a picture: SVG, or a page that shows it."""

from __future__ import annotations

from orun.pipeline.model import Pipeline
from orun.report.html.graph import Node, draw
from orun.report.html.templating import render


def graph_file(pipeline: Pipeline, form: str) -> str:
    """Return the picture of a pipeline's stages.

    Args:
        pipeline: the pipeline.
        form: `svg` or `html`.
    """
    nodes = [Node(stage.id, stage.uses, stage.uses, f"{stage.id} ({stage.uses})", "dim") for stage in pipeline.stages]
    drawing = draw(nodes, {stage.id: stage.before for stage in pipeline.stages})
    text = render(f"graph_file.{form}", drawing=drawing, name=pipeline.name)
    return text.strip()
