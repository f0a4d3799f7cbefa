"""Make a release: a folder with the model, its provenance, its measurements, and a manifest of digests.

- `model.onnx`, with its external data
- `NAME/model.onnx` for each further input `model.NAME`: `needs: {model: decoder, model.encoder: encoder}`
- `provenance.json`: every stage that led to it, with its kind, parameters, tools and their versions, key and digest
- `measurements.json`: what those stages measured, on which machine, and the verdicts of their gates
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

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from orun.core.metrics import Metric
from orun.core.reason import Reason
from orun.core.serialization import decode
from orun.core.targets import EXTENSIONS
from orun.errors import StageFailed
from orun.measure.extension_operators import needs_extensions
from orun.stages._data.source import Examples
from orun.stages.contract import MODEL, Context, Port, Spec
from orun.stages.params import Doc
from orun.stages.release._manifest import FORMAT, MANIFEST, MEASUREMENTS, PROVENANCE, write_json, write_manifest
from orun.stages.release._reference import REFERENCE, add_reference
from orun.text.wording.caveats import caveat
from orun.text.wording.findings import finding

MEASURED = ("metrics", "verdicts", "host")  # fields of a stage's entry that `measurements.json` holds

SPEC = Spec(
    inputs={
        "model": Port(("onnx",), "The model to release; `model.NAME` for those that belong to it.", many=True),
        "card": Port(("files",), "What is released with it: the model card of `release/card`.", optional=True),
    },
    output="bundle",
    lineage=True,
    metrics=("size",),
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


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Fill the bundle."""
    if context.lineage is None:
        raise StageFailed(context.stage, "a bundle needs the lineage of its model, and none was given")
    lineage = json.loads(context.lineage.read_bytes())
    for port in sorted(context.inputs, key=lambda port: port == "card"):  # the card last: no model may replace it
        _copy(context, port)
    head = {"format": FORMAT, "name": lineage["pipeline"], "version": params.version}
    write_json(context.output / PROVENANCE, head | {"stages": [_provenance(entry) for entry in lineage["stages"]]})
    measured = [_measurements(entry) for entry in lineage["stages"] if entry["metrics"] or entry["verdicts"]]
    write_json(context.output / MEASUREMENTS, head | {"stages": measured})
    if params.data is not None:
        add_reference(context, params.data)
    write_manifest(context.output, lineage["pipeline"], params.version, _requirements(context, lineage["stages"]))
    size = sum(path.stat().st_size for path in context.output.rglob("*") if path.is_file())
    return {"size": Metric(size, "B", "lower")}


def _copy(context: Context, port: str) -> None:
    source = context.inputs[port]
    folder = context.output / port.partition(".")[2]
    folder.mkdir(exist_ok=True)
    for path in sorted(source.rglob("*")):
        name = path.relative_to(source).as_posix()
        target = folder / name
        if path.is_dir():
            target.mkdir(exist_ok=True)
        elif name in (MANIFEST, PROVENANCE, MEASUREMENTS, REFERENCE) or target.exists():
            raise StageFailed(
                context.stage, f"the input {port} has a file named {name}, a name that the bundle needs itself"
            )
        else:
            shutil.copyfile(path, target)


def _requirements(context: Context, stages: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the packages of operators in the models, in the versions that the stages used; empty where none did."""
    if not any(needs_extensions(path) for path in context.output.rglob(MODEL)):
        return {}
    versions = [entry["tools"][EXTENSIONS] for entry in stages if EXTENSIONS in entry["tools"]]
    return {EXTENSIONS: versions[-1] if versions else ""}


def _provenance(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name not in MEASURED}


def _measurements(entry: Mapping[str, Any]) -> dict[str, Any]:
    measured = {name: entry[name] for name in ("stage", "uses", *MEASURED)}
    return measured | {"verdicts": [verdict | _sentences(verdict) for verdict in entry["verdicts"]]}


def _sentences(verdict: Mapping[str, Any]) -> dict[str, str]:
    """Return the finding and the caveats of a verdict as sentences."""
    sentences = {"why": finding(decode(Reason, verdict["finding"]))}
    if caveats := decode(tuple[Reason, ...], verdict.get("caveats", [])):
        sentences["caveat"] = "; ".join(map(caveat, caveats))
    return sentences
