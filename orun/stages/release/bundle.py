"""Make a release: a folder with the model, its provenance, its measurements, and a manifest of digests.

- `model.onnx`, with its external data
- `NAME/model.onnx` for each further input `model.NAME`: `needs: {model: decoder, model.encoder: encoder}`
- `provenance.json`: every stage that led to it, with its kind, parameters, tools and their versions, key and digest
- `measurements.json`: what those stages measured, on which machine, and the verdicts of their gates. Its digests say
  which artifacts: `models` of the files of the bundle, `inputs` of what a stage was given, `tree` of what it made
- the files of the port `card`, if connected
- `reference.json`, with `data`: statistics of the inputs and outputs of these examples, for `orun watch`
- `session.json`: the settings of `optimize/session`, if the model has such
- `manifest.json`: size, BLAKE3 and SHA-256 of each of these files, and the packages that sessions need beside ONNX
  Runtime (`requires`)

The stage waits for the gates on its models and includes their figures and verdicts. List further stages that measure
in `needs`, after the model. `orun verify FOLDER` checks a bundle anywhere. Equal models with equal provenance yield
equal bytes: a bundle holds no timestamp.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from orun.core.metrics import SIZE
from orun.stages._data.source import Examples
from orun.stages.contract import Context, Port, Spec
from orun.stages.params import Doc
from orun.stages.release._bundle_files import CARD, fill_bundle, seal_bundle
from orun.stages.release._reference import add_reference

SPEC = Spec(
    inputs={
        "model": Port(("onnx",), "The model to release; `model.NAME` for those that belong to it.", many=True),
        "card": CARD,
    },
    output="bundle",
    provenance=True,
    metrics={"size": SIZE},
    releases=True,
    kept=True,
)


@dataclass(frozen=True)
class Params:
    """Parameters of `release/bundle`."""

    version: Annotated[str, Doc("Version of the release, for the manifest.")] = ""
    data: Annotated[
        Examples | None,
        Doc("Examples that `orun watch` compares the log of a server with: a function, or files; 20 at least."),
    ] = None


def packages(params: Params, _root: Path) -> Mapping[str, str]:
    """Return the packages with which the examples are run."""
    return dict.fromkeys(("numpy", "onnx", "onnxruntime|onnxruntime-gpu"), "`data`") if params.data else {}


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Fill the bundle."""
    provenance = fill_bundle(context, params.version)
    if params.data is not None:
        add_reference(context, params.data)
    return seal_bundle(context, provenance, params.version)
