"""The public functions: their arguments, history, verify."""

from __future__ import annotations

import hashlib
import importlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import orun
from orun.api import rebuild
from orun.cli.run_ids import read_run
from orun.core.events import Event, StageStarted
from orun.errors import UsageError
from orun.stages.release._manifest import REQUIRED, write_manifest
from orun.store import Store
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


def test_the_names_of_the_package() -> None:
    assert {*orun.__all__} <= {*dir(orun)}


def test_a_single_name_is_a_text(store: Path) -> None:
    """Its letters were taken as names of stages."""
    file = store.parent / "p.yaml"
    for name in ("only", "from_", "to", "force"):
        chosen: Any = {name: "write"}
        assert [step.stage.id for step in orun.plan(file, store=store, **chosen).steps] == ["write"]
        assert [stage.stage for stage in orun.run(file, store=store, **chosen).stages] == ["write"]
    assert [rebuilt.stage for rebuilt in rebuild(file, only="write", store=store)] == ["write"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"jobs": 0}, "jobs must be an integer of at least 1, not 0"),
        ({"jobs": "2"}, "jobs must be an integer of at least 1, not '2'"),
        ({"jobs": 1.5}, "jobs must be an integer of at least 1, not 1.5"),
        ({"jobs": True}, "jobs must be an integer of at least 1, not True"),
        ({"gpus": -1}, "gpus must be an integer of at least 0, not -1"),
        ({"wait": "5"}, "wait must be a number of seconds, not '5'"),
        ({"wait": math.nan}, "wait must be a number of seconds, not nan"),
        ({"force": True}, "force must be a text, a path or several of them, not True"),
        ({"only": [1]}, "only must be a text, a path or several of them, not [1]"),
        ({"set": {1: 2}}, 'set must map paths to values, not {1: 2}\n  hint: set={"vars.sequence": 64}'),
        ({"set": {"seed": b"1"}}, "set has b'1' for seed, which no YAML file can hold"),
        ({"set": {"seed": object}}, "set has <class 'object'> for seed, which no YAML file can hold"),
        ({"set": "x=1"}, "set must map paths to values, not 'x=1'\n  hint: set={\"vars.sequence\": 64}"),
    ],
)
def test_a_run_refuses_what_the_command_line_refuses(tmp_path: Path, options: Any, message: str) -> None:
    (tmp_path / "p.yaml").write_text("stages: {write: {uses: ./code.py:write}}\n", encoding="utf-8")
    (tmp_path / "code.py").write_text(CODE, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        orun.run(tmp_path / "p.yaml", store=tmp_path / "store", **options)
    assert str(caught.value) == message
    assert not [*tmp_path.glob("store/out/*")]


@pytest.mark.parametrize("file", [None, 3, b"p.yaml", {"stages": {}}])
def test_what_is_no_path_is_refused(store: Path, file: Any) -> None:
    for function in (orun.load, orun.plan, orun.run, lambda file: orun.explain(file, "write")):
        with pytest.raises(UsageError) as caught:
            function(file)
        assert str(caught.value) == f"file must be a path, not {file!r}"
    with pytest.raises(UsageError) as caught:
        orun.explain(store.parent / "p.yaml", file, store=store)
    assert str(caught.value) == f"stage must be the id of a stage, not {file!r}"


def test_numbers_of_numpy_are_values(tmp_path: Path) -> None:
    """As a sweep over an array has them."""
    (tmp_path / "p.yaml").write_text("seed: 1\nstages: {import: {uses: convert/onnx, with: {path: a.onnx}}}\n")
    (tmp_path / "a.onnx").touch()
    assert orun.load(tmp_path / "p.yaml", set={"seed": np.arange(3)[2]}).seed == 2


def test_ctrl_c_raises_when_the_run_has_ended_in_order(store: Path) -> None:
    """A loop over pipelines went on with the next one."""

    def interrupt(event: Event) -> None:
        if isinstance(event, StageStarted):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        orun.run(store.parent / "p.yaml", store=store, force="write", on_event=interrupt)
    assert isinstance(stopped.value, orun.RunInterrupted)
    result = stopped.value.result
    assert (result.outcome, result.exit_code, result.stages) == ("interrupted", 130, ())
    with Store.open(store, read_only=True) as opened:
        assert read_run(opened, "last") == result


def test_a_single_report_is_a_path(store: Path) -> None:
    file = store.parent / "p.yaml"
    for report in (str(file), file):
        with pytest.raises(UsageError) as caught:
            orun.run(file, store=store, reports=report)
        assert str(caught.value) == f"{file} cannot be written\n  a run reads it\n  hint: name another file"


def test_a_path_is_a_value(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    text = "vars: {model: a.onnx}\nstages: {import: {uses: convert/onnx, with: {path: '${vars.model}'}}}\n"
    file.write_text(text, encoding="utf-8")
    (tmp_path / "b.onnx").touch()
    for value in (Path("b.onnx"), "b.onnx"):
        pipeline = orun.load(file, set={"vars.model": value})
        assert pipeline.stage("import").params["path"] == "b.onnx"
    pipeline = orun.load(file, set={"stages.import.with": {"path": Path("b.onnx")}})
    assert pipeline.stage("import").params["path"] == "b.onnx"


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
