"""Released bundles: digests that identify each bundle and its files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from orun.core.run_record import StageResult
from orun.core.serialization import parse_foreign_json
from orun.fs.os_errors import quote
from orun.report.html.source import Source
from orun.report.html.templating import render_code
from orun.text.suggestions import show_path
from orun.text.units import show


def view_release(source: Source) -> list[Mapping[str, Any]]:
    """Return the bundles of a run, each with the command that checks a copy."""
    return [bundle for stage in source.result.stages for bundle in _view_bundle(source, stage)]


def _view_bundle(source: Source, stage: StageResult) -> Iterator[Mapping[str, Any]]:
    content = source.stored.contents.get(stage.stage) if stage.uses == "release/bundle" else None
    if content is None:
        return
    try:
        manifest: Mapping[str, Any] = parse_foreign_json(content)
        files = [
            (render_code(str(file["path"])), show(float(file["size"]), "B"), render_code(str(file["sha256"])))
            for file in manifest["files"]
        ]
    except (ValueError, KeyError, TypeError):  # a manifest of another version
        return
    yield {
        "stage": stage.stage,
        "name": str(manifest.get("name", "")),
        "version": str(manifest.get("version", "")),
        "sha256": hashlib.sha256(content).hexdigest(),
        "check": f"orun verify {quote(show_path(stage.out))}" if stage.out else "",
        "files": files,
    }
