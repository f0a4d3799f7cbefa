"""Released bundles: digests that identify each bundle and its files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orun.core.run_record import StageResult
from orun.core.serialization import foreign_json
from orun.fs.os_errors import quoted
from orun.report.html.source import Source
from orun.report.html.stored import read_stored
from orun.report.html.templating import code
from orun.stages.release._manifest import MANIFEST
from orun.text.suggestions import near
from orun.text.units import show


@dataclass(frozen=True)
class Bundle:
    """Release bundle.

    Attributes:
        stage: that made it.
        name, version: of the release; may be empty.
        sha256: of its manifest, which lists all files.
        check: the command that checks a copy; may be empty.
        files: path, size, SHA-256.
    """

    stage: str
    name: str
    version: str
    sha256: str
    check: str
    files: Sequence[Sequence[str]]


def release(source: Source) -> list[Bundle]:
    """Return the bundles of a run."""
    return [bundle for stage in source.result.stages for bundle in _bundle(source, stage)]


def _bundle(source: Source, stage: StageResult) -> Iterator[Bundle]:
    content = read_stored(source.store, stage, MANIFEST) if stage.uses == "release/bundle" else None
    if content is None:
        return
    try:
        manifest: Mapping[str, Any] = foreign_json(content)
        files = [
            (code(str(file["path"])), show(float(file["size"]), "B"), code(str(file["sha256"])))
            for file in manifest["files"]
        ]
    except (ValueError, KeyError, TypeError):  # a manifest of another version
        return
    yield Bundle(
        stage=stage.stage,
        name=str(manifest.get("name", "")),
        version=str(manifest.get("version", "")),
        sha256=hashlib.sha256(content).hexdigest(),
        check=f"orun verify {quoted(near(stage.out))}" if stage.out else "",
        files=files,
    )
