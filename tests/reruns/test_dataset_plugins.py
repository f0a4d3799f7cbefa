"""A reader of datasets from an installed package: its code and its version count for the stages that use it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from tests.project import Project
from tests.site_packages import CHECKOUT, Site, reasons

PIPELINE = """
name: text
stages:
  import: {uses: convert/onnx, with: {path: model.onnx}}
  accuracy:
    uses: measure/accuracy
    needs: import
    with: {dataset: cards.deck, metrics: [accuracy]}
  size: {uses: measure/size, needs: import}
"""
MODEL = '<ir_version: 9, opset_import: ["" : 20]> cards (float[n, 2] x) => (float[n, 2] y) {y = Identity(x)}'
READER = """
import numpy as np

from acme_labels import label


def read(path):
    rows = [line.split() for line in path.read_text().splitlines()]
    return {"x": np.array(rows, np.float32), "labels": np.array([label(row) for row in rows])}
"""
LABELS = "def label(row):\n    return int(row[1] > row[0])\n"


def make(folder: Path) -> tuple[Project, Site, Path]:
    """Write a project with a dataset that a package reads, and install the package."""
    project, site = Project.make(folder / "project", PIPELINE), Site.make(folder)
    onnx.save(onnx.parser.parse_model(MODEL), project.folder / "model.onnx")
    project.write("cards.deck", "0 1\n1 0\n3 2\n")
    metadata = site.install("acme_deck", "1.0", READER.replace("acme_labels", "acme_deck.labels"))
    package = site.folder / "acme_deck"
    package.mkdir()
    (site.folder / "acme_deck.py").rename(package / "__init__.py")
    (package / "labels.py").write_text(LABELS)
    (metadata / "entry_points.txt").write_text("[orun.datasets]\ndeck = acme_deck:read\n")
    return project, site, package / "labels.py"


def test_its_code_and_its_version_count(tmp_path: Path) -> None:
    project, site, labels = make(tmp_path)
    first = site.run(project)
    assert list(reasons(first)) == ["import", "accuracy", "size"]
    assert first["accuracy"]["metrics"]["accuracy"]["value"] == 1
    assert reasons(site.run(project)) == {}
    before = labels.stat()
    labels.write_text(LABELS.replace(">", "<"))
    os.utime(labels, ns=(before.st_atime_ns, before.st_mtime_ns))  # as byte code knows it
    edited = site.run(project)
    assert reasons(edited) == {"accuracy": [f"{labels} changed (read by the stage)"]}
    assert edited["accuracy"]["metrics"]["accuracy"]["value"] == 0
    (metadata,) = site.folder.glob("acme_deck-*")
    metadata.rename(site.folder / "acme_deck-1.1.dist-info")
    assert reasons(site.run(project)) == {"accuracy": ["package acme-deck: 1.0 -> 1.1 (imported by the stage)"]}
    assert reasons(site.run(project)) == {}


@pytest.mark.slow
def test_a_run_with_nothing_to_do_looks_for_no_entry_points(tmp_path: Path) -> None:
    project, site, _ = make(tmp_path)
    site.run(project)
    process = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "orun", "pipeline.yaml", "--store", str(project.store)],
        cwd=project.folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(site.folder), str(CHECKOUT)])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "importlib.metadata" not in process.stderr
    assert "acme_deck" not in process.stderr
