"""Section on what is released: digests that identify each bundle and its models."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from orun.core.run_record import StageResult
from orun.core.serialization import foreign_json
from orun.report.figures import quoted
from orun.report.html.parts import Section, cell, code, row, table, terms
from orun.report.html.source import Source
from orun.report.html.stored import read_stored
from orun.report.html.tags import Children, Markup, element, join
from orun.stages.release._manifest import MANIFEST
from orun.text.suggestions import near
from orun.text.units import show

TITLES = (("file", "left"), ("size", "right"), ("SHA-256", "left"))


def release(source: Source) -> Section | None:
    """The section; None for a run that has no bundle."""
    blocks = [block for stage in source.result.stages for block in _bundle(source, stage)]
    return Section("release", "What is released", join(*blocks)) if blocks else None


def _bundle(source: Source, stage: StageResult) -> Iterator[Markup]:
    content = read_stored(source.store, stage, MANIFEST) if stage.uses == "release/bundle" else None
    if content is None:
        return
    try:
        manifest: Mapping[str, Any] = foreign_json(content)
        rows = [
            row(
                element("th", code(str(file["path"])), scope="row", role="rowheader"),
                cell(show(float(file["size"]), "B"), "size", class_="right"),
                cell(code(str(file["sha256"])), "SHA-256"),
            )
            for file in manifest["files"]
        ]
    except (ValueError, KeyError, TypeError):  # a manifest of another version
        return
    yield terms(_facts(stage, manifest, hashlib.sha256(content).hexdigest()))
    yield table(TITLES, rows, f"Files of {stage.stage}", "digests")


def _facts(stage: StageResult, manifest: Mapping[str, Any], digest: str) -> Iterator[tuple[str, Children]]:
    yield "name", str(manifest.get("name", ""))
    yield "version", str(manifest.get("version", ""))
    yield "SHA-256 of the bundle", join(code(digest), ", that of its manifest, which lists all files")
    yield "check a copy", code(f"orun verify {quoted(near(stage.out))}") if stage.out else ""
