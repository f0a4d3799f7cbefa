"""Folders and records of stages' results. Processes of tests need these alone, and do not import pytest for them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from orun.core.metrics import Metric
from orun.store import Action, ImplicitDependencies
from tests.facts import components


def fill(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Make a folder with these files."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def content(folder: Path) -> dict[str, bytes]:
    """The files of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def action(key: str = "a" * 64, **changes: object) -> Action:
    """A record."""
    fields: dict[str, object] = {
        "key": key,
        "components": components({"kind": "quantize/dynamic", "parameter per_channel": "true"}),
        "implicit_deps": ImplicitDependencies(),
        "tree": "1" * 64,
        "size": 12,
        "metrics": {"nodes": Metric(3.0)},
        "log": "2" * 64,
        "pipeline": "bert",
        "stage": "int8",
        "host": {"cpu": "x"},
        "started_at": 100.0,
        "seconds": 1.5,
        "cpu_seconds": 1.25,
        "peak_memory": 1000,
        **changes,
    }
    return Action(**fields)  # type: ignore[arg-type]
