"""Write a model card: inputs and outputs of the model, measurements, verdicts of gates, and the stages that made it.

The artifact is `README.md` in Markdown, with the front matter that model hubs read. All figures come from the stages
before this one. Like a release, the stage waits for the gates on its model and shows their figures and verdicts. List
further stages that measure in `needs`, after the model. To release the card with the model, connect it to the port
`card` of `release/bundle`. Equal models with equal provenance yield equal cards.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from orun.core.metrics import SIZE
from orun.stages.contract import Context, Port, Spec
from orun.stages.params import Doc, FilePath

CARD = "README.md"

SPEC = Spec(
    inputs={"model": Port(("onnx",), "The model to describe.")},
    output="files",
    tools=("onnx", "pyyaml"),
    extra="cpu",
    preload=("onnx",),
    provenance=True,
    metrics={"size": SIZE},
    releases=True,
    kept=True,
)


@dataclass(frozen=True)
class Params:
    """Parameters of `release/card`: texts about the model. An empty one is left out of the card."""

    title: Annotated[str, Doc("Heading of the card; by default the name of the pipeline.")] = ""
    description: Annotated[str, Doc("What the model does, in Markdown.")] = ""
    intended_use: Annotated[str, Doc("Intended use, in Markdown.")] = ""
    limitations: Annotated[str, Doc("Limitations, in Markdown.")] = ""
    license: Annotated[str, Doc("Identifier of the licence (`apache-2.0`).")] = ""
    language: Annotated[list[str], Doc("Codes of the model's languages (`en`).")] = field(default_factory=list)
    tags: Annotated[list[str], Doc("Tags for a model hub.")] = field(default_factory=list)
    base_model: Annotated[str, Doc("Model that this one was made from, as its hub names it.")] = ""
    text: Annotated[FilePath | None, Doc("Markdown file to add at the end.")] = None


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Write the card."""
    from orun.measure.session_settings import read_settings
    from orun.stages._graph.io import load_graph, measure_files
    from orun.stages.release._card_text import Texts, render_card

    if context.provenance is None:
        raise context.failed("a card needs the provenance of its model, and none was given")
    texts = Texts(
        params.title,
        params.description,
        params.intended_use,
        params.limitations,
        params.license,
        params.language,
        params.tags,
        params.base_model,
        appendix=_read_text(context, params.text) if params.text else "",
    )
    folder = context.model().parent
    provenance = json.loads(context.provenance.read_bytes())
    text = render_card(load_graph(context.model()), measure_files(folder), read_settings(folder), provenance, texts)
    (context.output / CARD).write_text(text, "utf-8")
    return {"size": len(text.encode())}


def _read_text(context: Context, name: str) -> str:
    try:
        return (context.root / name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise context.failed(
            f"{name} cannot be added to the card", why=str(error), hint="name a text file in UTF-8"
        ) from error
