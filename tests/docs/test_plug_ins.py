"""The packages of docs/how-to/plug-ins.md, installed as they stand there."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from orun.cli.main import main
from orun.errors import OrunError
from orun.runner.open_fleet import open_fleet
from orun.stages._data.files import read
from orun.stages._data.source import to_source
from orun.stages.params import FilePath
from tests.pipeline.support import loaded
from tests.project import Project
from tests.site_packages import Site, reasons

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "plug-ins.md"
MODULE = re.compile(r"```python\n# (?P<name>\w+)\.py\n(?P<text>.*?)```", re.DOTALL)
POINTS = re.compile(r'```toml\n\[project\.entry-points\."(?P<group>[\w.]+)"\]\n(?P<points>.*?)```', re.DOTALL)

PROVIDED = """\
targets: {{npu: {{providers: [{}]}}}}
stages:
  export: {{uses: convert/onnx, with: {{path: model.onnx}}}}
  covered: {{uses: check/coverage, needs: export, with: {{target: npu}}}}
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A folder of installed packages that has those of the page."""
    site, page = Site.make(tmp_path / "environment"), PAGE.read_text(encoding="utf-8")
    for module, offer in zip(MODULE.finditer(page), POINTS.finditer(page), strict=True):
        metadata = site.install(module["name"], "1.0", module["text"])
        monkeypatch.delitem(sys.modules, module["name"], raising=False)
        points = offer["points"].replace('"', "")
        (metadata / "entry_points.txt").write_text(f"[{offer['group']}]\n{points}")
    monkeypatch.syspath_prepend(site.folder)
    return site


def test_the_page_has_an_example_of_each_group() -> None:
    page = PAGE.read_text(encoding="utf-8")
    table = re.findall(r"^\| `(orun\.\w+)` \|", page, re.MULTILINE)
    assert [offer["group"] for offer in POINTS.finditer(page)] == table


def test_a_kind(site: Site, tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project", "name: text\nstages: {shout: {uses: acme/shout, with: {text: abc}}}\n")
    assert reasons(site.run(project)) == {"shout": ["never run before"]}
    assert project.text("shout") == "ABC"


@pytest.mark.usefixtures("site")
def test_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project.make(tmp_path / "project")
    project.run()
    monkeypatch.chdir(project.folder)
    assert main(["report", "--store", str(project.store), "--report", "slack=message.json"]) == 0
    assert json.loads((project.folder / "message.json").read_text()) == {"text": "text: exit code 0"}


@pytest.mark.usefixtures("site")
def test_a_reader_of_datasets(tmp_path: Path) -> None:
    (tmp_path / "cards.deck").write_text("0 1\n3 2\n")
    dataset = read(tmp_path, to_source(FilePath("cards.deck")))
    assert {name: np.asarray(values).tolist() for name, values in dataset.inputs.items()} == {"x": [[0, 1], [3, 2]]}
    assert np.asarray(dataset.labels).tolist() == [1, 0]


@pytest.mark.usefixtures("site")
def test_a_provider(tmp_path: Path) -> None:
    provider = "AcmeExecutionProvider: {level: 3, fast: true, mode: high}"
    pipeline = loaded(tmp_path / "project", PROVIDED.format(provider))
    (target,) = pipeline.stage("covered").targets
    assert target.providers[0].options == {"level": "3", "fast": "1", "mode": "high"}


@pytest.mark.usefixtures("site")
def test_a_fleet() -> None:
    with pytest.raises(OrunError, match=r"/run/orun/bench\.sock"):
        open_fleet("lab://bench").machines()
