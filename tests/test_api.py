"""The public functions that read: history, verify."""

from __future__ import annotations

import hashlib
import importlib
from pathlib import Path

import pytest

import orun
from orun.errors import UsageError
from orun.stages.release._manifest import REQUIRED, write_manifest
from tests.report.test_notebook import CODE


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The store of a project whose stage was measured twice."""
    (tmp_path / "p.yaml").write_text("stages: {write: {uses: ./code.py:write}}\n", encoding="utf-8")
    for text in ("text", "longer"):
        code = CODE.replace('"text")\n', f'"{text}")\n').replace("4}", f"{len(text)}}}")
        (tmp_path / "code.py").write_text(code, encoding="utf-8")
        orun.run(tmp_path / "p.yaml", store=tmp_path / "store")
    return tmp_path / "store"


def test_the_history_of_a_metric(store: Path) -> None:
    (series,) = orun.history("letters", store=store)
    assert (series.name, series.values) == ("write.letters", (4, 6))
    assert orun.history("write.letters", pipeline="p", store=store) == (series,)
    with pytest.raises(UsageError) as caught:
        orun.history("leters", store=store)
    assert str(caught.value) == "no measurement of 'leters'\n  did you mean letters?\n  hint: orun history"


def test_the_room_of_the_history_does_not_hide_the_function() -> None:
    module = importlib.import_module("orun.history")
    assert callable(orun.history)
    assert importlib.import_module("orun.history") is module


def test_the_check_of_a_bundle(tmp_path: Path) -> None:
    for name in REQUIRED:
        (tmp_path / name).write_bytes(name.encode())
    write_manifest(tmp_path, "bert", "1.0")
    check = orun.verify(tmp_path)
    names = ("manifest.json", *sorted(REQUIRED))
    digests = {name: hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in names}
    assert check == orun.BundleCheck(tmp_path, (), digests)
    assert check.ok
    (tmp_path / "readme.txt").touch()
    damaged = orun.verify(str(tmp_path))
    assert damaged == orun.BundleCheck(tmp_path, ("readme.txt is not in the manifest",), {})
    assert not damaged.ok
