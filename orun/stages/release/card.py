"""Write a model card: what the model takes and gives, what was measured, how its gates were judged, how it was made.

The artifact is `README.md`, in Markdown with the front matter that model hubs read. Every figure in it comes from the
stages before this one. It waits for the gates on its model, as a release does, and has their figures and verdicts; list
others that measure in `needs`, after the model. Connect it to the port `card` of `release/bundle` and it is released
with the model. Equal models with an equal history make equal cards.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from orun.core.metrics import Metric
from orun.errors import StageFailed
from orun.stages.contract import Context, Port, Spec
from orun.stages.params import Doc, FilePath

CARD = "README.md"

SPEC = Spec(
    inputs={"model": Port(("onnx",), "The model that the card is about.")},
    output="files",
    tools=("onnx", "pyyaml"),
    extra="cpu",
    preload=("onnx",),
    lineage=True,
    metrics=("size",),
    releases=True,
    kept=True,
)


@dataclass(frozen=True)
class Params:
    """What only people know; every part that is left out is left out of the card."""

    title: Annotated[str, Doc("Heading of the card; the pipeline's name when left out.")] = ""
    description: Annotated[str, Doc("What the model does, in Markdown.")] = ""
    intended_use: Annotated[str, Doc("What it is meant for, in Markdown.")] = ""
    limitations: Annotated[str, Doc("What it is not good at, in Markdown.")] = ""
    license: Annotated[str, Doc("Identifier of its licence (`apache-2.0`).")] = ""
    language: Annotated[list[str], Doc("Codes of the languages that it knows (`en`).")] = field(default_factory=list)
    tags: Annotated[list[str], Doc("Tags for a model hub.")] = field(default_factory=list)
    base_model: Annotated[str, Doc("The model that it was made from, as its hub names it.")] = ""
    text: Annotated[FilePath | None, Doc("A Markdown file that is added at the end.")] = None


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Write the card."""
    from orun.stages._graph.io import load_graph
    from orun.stages.release._card_text import card

    if context.lineage is None:
        raise StageFailed(context.stage, "a card needs the lineage of its model, and none was given")
    more = _added(context, params.text) if params.text else ""
    folder = context.model().parent
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    text = card(load_graph(context.model()), size, json.loads(context.lineage.read_bytes()), params, more)
    (context.output / CARD).write_text(text, "utf-8")
    return {"size": Metric(len(text.encode()), "B")}


def _added(context: Context, name: str) -> str:
    """The text that is added at the end."""
    try:
        return (context.root / name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StageFailed(
            context.stage, f"{name} cannot be added to the card", why=str(error), hint="name a text file in UTF-8"
        ) from error
