"""Reference of a release, as the columns that are watched."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from orun.core.serialization import Record, parse_foreign_json
from orun.errors import UsageError
from orun.fs.bounded_reads import RECORD_LIMIT, read_bounded
from orun.fs.os_errors import quote
from orun.stages.release._manifest import MANIFEST, REFERENCE
from orun.stages.release._reference import FORMAT
from orun.store import Store

LATENCY = "latency"
HINT = "set `data:` in the stage of release/bundle or release/server, and build it again"


class Column(Record, frozen=True):
    """A statistic that is watched: of an array, or the latency of a request if it has no array.

    Attributes:
        name: `inputs.NAME.STATISTIC`, `outputs.NAME.STATISTIC` or `latency`.
        group: `inputs` or `outputs`.
        array: name of the input or output.
        statistic: name of the statistic.
    """

    name: str
    group: str = ""
    array: str = ""
    statistic: str = ""


class Release:
    """A release with the reference that its log is compared with.

    Args:
        name: where it is.
        content: of its reference.
        listed: SHA-256 of each file by its path, as the manifest lists them.

    Attributes:
        name: where it is.
        columns: what is watched; the latency is the last one.
        values: values of each column at release, infinite where an example has none; no values of a latency that was
            not measured.
        types: type of each array, by group and name.
        rows: rows of the requests whose latency is compared.
        model: SHA-256 of the model; empty if not known.
        digest: SHA-256 of the reference.
    """

    def __init__(self, name: str, content: bytes, listed: Mapping[str, str]) -> None:
        self.name = name
        self.digest = hashlib.sha256(content).hexdigest()
        data = parse_foreign_json(content)
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            known = data.get("format") if isinstance(data, dict) else None
            raise UsageError(f"the reference of {name} has format {known}, and this orun knows {FORMAT}")
        self.model = listed.get(data["model"], "")
        self.rows = int(data["rows"])
        arrays = [(group, array, entry) for group in ("inputs", "outputs") for array, entry in data[group].items()]
        self.types = {(group, array): str(entry["type"]) for group, array, entry in arrays}
        watched = {
            Column(f"{group}.{array}.{statistic}", group, array, statistic): _to_array(values)
            for group, array, entry in arrays
            for statistic, values in entry["statistics"].items()
        }
        watched[Column(LATENCY)] = _to_array(data.get("seconds", []))
        self.columns = tuple(watched)
        self.values = tuple(watched.values())


def _to_array(values: list[float | None]) -> NDArray[np.float64]:
    return np.array([np.inf if value is None else value for value in values], np.float64)


def load_release(folder: Path) -> Release:
    """Return the release in a folder, checked against its manifest.

    It is a bundle, or the folder of a server.

    Raises:
        UsageError: when it has no reference, or another one than was released.
    """
    try:
        content = read_bounded(folder / REFERENCE, RECORD_LIMIT)
        manifest = read_bounded(folder / MANIFEST, RECORD_LIMIT)
    except OSError as error:
        missing = Path(os.fsdecode(error.filename or REFERENCE)).name
        raise UsageError(f"{folder} has no reference to compare with", why=f"no {missing} in it", hint=HINT) from error
    return _build_release(str(folder), content, manifest, f"orun verify {quote(folder)}")


def load_tree(store: Store, tree: str, name: str) -> Release | None:
    """Return the release among the results of a store; None if the result holds no reference."""
    listed = store.read_tree(tree)
    files = {entry.path: entry.digest for entry in listed.entries} if listed else {}
    if not {REFERENCE, MANIFEST} <= files.keys():
        return None
    return _build_release(name, store.read(files[REFERENCE]), store.read(files[MANIFEST]), "orun store verify")


def _build_release(name: str, content: bytes, manifest: bytes, hint: str) -> Release:
    try:
        listed = {entry["path"]: entry["sha256"] for entry in parse_foreign_json(manifest)["files"]}
        if listed[REFERENCE] != hashlib.sha256(content).hexdigest():
            raise UsageError(f"the reference of {name} does not match its manifest", hint=hint)
        return Release(name, content, listed)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"the reference of {name} is damaged", why=str(error), hint=hint) from error
