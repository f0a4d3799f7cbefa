"""Files of a bundle: models, card, provenance, measurements, manifest."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from orun.core.targets import EXTENSIONS
from orun.measure.extension_operators import needs_extensions
from orun.stages._graph.io import measure_files
from orun.stages.contract import MODEL, Context, Port
from orun.stages.release._manifest import (
    FORMAT,
    MANIFEST,
    MEASUREMENTS,
    PROVENANCE,
    REFERENCE,
    write_json,
    write_manifest,
)

MEASURED = ("metrics", "verdicts", "host")  # fields of a stage's entry that `measurements.json` holds
CARD = Port(("files",), "What is released with it: the model card of `release/card`.", optional=True)


def fill_bundle(context: Context, version: str) -> Mapping[str, Any]:
    """Write the files of a bundle without its manifest; return the provenance of its model."""
    if context.provenance is None:
        raise context.failed("a bundle needs the provenance of its model, and none was given")
    provenance: dict[str, Any] = json.loads(context.provenance.read_bytes())
    for port in sorted(context.inputs, key=lambda port: port == "card"):  # the card last: no model may replace it
        _copy(context, port)
    head = {"format": FORMAT, "name": provenance["pipeline"], "version": version}
    write_json(
        context.output / PROVENANCE, head | {"stages": [_keep_provenance(entry) for entry in provenance["stages"]]}
    )
    write_json(context.output / MEASUREMENTS, head | _describe_measurements(provenance))
    return provenance


def seal_bundle(context: Context, provenance: Mapping[str, Any], version: str) -> Mapping[str, float]:
    """Write the manifest of a bundle, after all its other files; return the bundle's size."""
    write_manifest(context.output, provenance["pipeline"], version, _list_requirements(context, provenance["stages"]))
    return {"size": measure_files(context.output)}


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
            raise context.failed(f"the input {port} has a file named {name}, a name that the bundle needs itself")
        else:
            shutil.copyfile(path, target)


def _list_requirements(context: Context, stages: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the packages of operators in the models, in the versions that the stages used; empty where none did."""
    if not any(needs_extensions(path) for path in context.output.rglob(MODEL)):
        return {}
    versions = [entry["tools"][EXTENSIONS] for entry in stages if EXTENSIONS in entry["tools"]]
    return {EXTENSIONS: versions[-1] if versions else ""}


def _keep_provenance(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name not in MEASURED}


def _describe_measurements(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Return what stages measured, with the digests of their artifacts and of the models of the bundle."""
    trees = {entry["stage"]: entry["tree"] for entry in provenance["stages"]}
    models = {port: trees[stage] for port, stage in provenance["needs"].items() if port.partition(".")[0] == "model"}
    return {
        "models": {(PurePath(port.partition(".")[2]) / MODEL).as_posix(): tree for port, tree in models.items()},
        "stages": [
            {name: entry[name] for name in ("stage", "uses", "tree", *MEASURED)}
            | {"inputs": {port: trees[stage] for port, stage in entry["needs"].items() if stage in trees}}
            for entry in provenance["stages"]
            if entry["metrics"] or entry["verdicts"]
        ],
    }
