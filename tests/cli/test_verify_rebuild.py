"""orun verify --rebuild: stages built once more, compared with what is stored, which stays as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orun.cli.main import main
from tests.faults.projects import write_model

from .conftest import CommandLine

CODE = """\
import os
import time

from orun import Metric, stage


@stage(inputs={"model": "onnx"}, output="files")
def roll(context):
    (context.output / "dice").write_bytes(os.urandom(64))
    (context.output / "steady").write_text("the same")


@stage(inputs={"model": "onnx"}, output="files", deterministic=False)
def declared(context):
    (context.output / "dice").write_bytes(os.urandom(64))


@stage(inputs={"model": "onnx"}, output="files")
def hashed(context):
    (context.output / "names").write_text(" ".join({str(number) for number in range(50)}))


@stage(inputs={"model": "onnx"}, output="metrics", stage_class="measurement")
def measured(context):
    return {"seconds": time.perf_counter()}


@stage(inputs={"model": "onnx"}, output="metrics")
def counted(context):
    return {"now": time.perf_counter_ns(), "noisy": Metric(time.perf_counter(), "s", noise="timing")}


@stage(inputs={"model": "onnx"}, output="files", releases=True)
def given(context):
    (context.output / "receipt").write_text("done")


@stage(inputs={"model": "onnx"}, output="files")
def secret(context):
    with open("/proc/self/environ", "rb") as file:  # in a way that is not seen
        if b"ORUN_TEST_BREAK=1" in file.read():
            raise ValueError("broken this time")
    (context.output / "steady").write_text("the same")
"""
PIPELINE = """\
name: model
stages:
  take: {uses: convert/onnx, with: {path: model.onnx}}
  roll: {uses: ./dice.py:roll, needs: take}
  declared: {uses: ./dice.py:declared, needs: take}
  hashed: {uses: ./dice.py:hashed, needs: take}
  measured: {uses: ./dice.py:measured, needs: take}
  counted: {uses: ./dice.py:counted, needs: take}
  given: {uses: ./dice.py:given, needs: take}
  secret: {uses: ./dice.py:secret, needs: take}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project after a run."""
    folder = tmp_path_factory.mktemp("project")
    write_model(folder)
    (folder / "dice.py").write_text(CODE)
    (folder / "pipeline.yaml").write_text(PIPELINE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ORUN_STORE", str(folder / "store"))
        assert main(["run", str(folder / "pipeline.yaml"), "--quiet"]) == 0
    return folder


@pytest.fixture
def project(orun: CommandLine, built: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    del orun  # which forgets the variable
    monkeypatch.setenv("ORUN_STORE", str(built / "store"))
    monkeypatch.chdir(built)
    return built


def stored(folder: Path) -> dict[str, bytes]:
    """What is stored, but for the index, which is a cache."""
    kept = ("objects", "actions", "latest", "out", "runs")
    return {
        str(path): path.read_bytes() for name in kept for path in (folder / "store" / name).rglob("*") if path.is_file()
    }


def test_every_stage_is_rebuilt_and_nothing_is_stored(orun: CommandLine, project: Path) -> None:
    before = stored(project)
    shown = orun("verify", "--rebuild", "pipeline.yaml")
    assert shown.err == ""
    lines = shown.out.splitlines()
    counted = lines.index("counted: differs")
    assert lines[:counted] == [
        "take: identical, 16.6 kB",
        "roll: differs",
        "  dice: other bytes, 64 B each",
        "declared: differs, as its kind says it may",
        "  dice: other bytes, 64 B each",
        "hashed: differs",
        "  names: other bytes, 139 B each",
        "measured: not rebuildable: it measures, and no two measurements are alike",
    ]
    assert lines[counted + 1].startswith("  metric now: ")
    assert lines[counted + 2 :] == [
        "given: not rebuildable: it publishes a release, and would do so again",
        "secret: identical, 8 B",
        "",
        "8 stages: 2 identical, 3 differs, 1 differs, as its kind says it may, 2 not rebuildable",
    ]
    assert shown.code == 1
    assert stored(project) == before
    assert list((project / "store" / "tmp").iterdir()) == []


@pytest.mark.slow
def test_chosen_stages_as_json(orun: CommandLine, project: Path) -> None:
    del project
    shown = orun(
        "verify", "pipeline.yaml", "--rebuild", "take", "--rebuild", "measured", "--rebuild", "declared", "--json"
    )
    document = json.loads(shown.out)
    assert (shown.code, document["good"]) == (0, True)
    take, declared, measured = document["stages"]
    assert (take["verdict"], take["stored"]) == ("identical", take["rebuilt"])
    assert (declared["verdict"], declared["declared"]) == ("differs", True)
    assert declared["files"] == [{"path": "dice", "stored": 64, "rebuilt": 64}]
    assert (measured["verdict"], "rebuilt" in measured) == ("not rebuildable", False)


def test_a_stage_that_fails_the_second_time(orun: CommandLine, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del project
    monkeypatch.setenv("ORUN_TEST_BREAK", "1")
    shown = orun("verify", "pipeline.yaml", "--rebuild", "secret")
    assert (shown.code, shown.out) == (
        3,
        "secret: failed: secret raised ValueError: broken this time; at dice.py:42 in secret\n\n1 stage: 1 failed\n",
    )


def test_there_must_be_something_to_compare_with(orun: CommandLine, project: Path) -> None:
    del project
    shown = orun("verify", "--rebuild", "pipeline.yaml", "--set", "seed=7")
    assert (shown.code, shown.out) == (2, "")
    assert shown.err == (
        "error: take has no stored result to compare with\n"
        "  not up to date: take, roll, declared, hashed, measured, counted, given, secret\n"
        "  hint: orun pipeline.yaml --set seed=7\n"
    )


def test_a_pipeline_file_is_no_bundle(orun: CommandLine, project: Path) -> None:
    del project
    shown = orun("verify", "pipeline.yaml")
    assert (shown.code, shown.err) == (
        2,
        (
            "error: pipeline.yaml is a file, not a bundle\n"
            "  expected the folder of a stage of release/bundle, or a copy of it\n"
            "  hint: orun verify --rebuild pipeline.yaml\n"
        ),
    )
