"""Refusals of the machine: each is a clear error that loses nothing."""

from __future__ import annotations

import gc
import json
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory, gettempdir

import pytest

from tests.faults import limits
from tests.faults.folders import remove
from tests.faults.projects import FIRST, write_model
from tests.faults.rig import Judgement, Rig
from tests.project import PIPELINE, Project, built
from tests.store.support import NOBODY, forks, in_child, needs_root
from tests.thin import mostly_slow


@pytest.mark.slow
def test_few_descriptors(text: Rig, second_rig: Rig) -> None:
    remove(text.store)
    with limits.ceiling(second_rig, resource.RLIMIT_NOFILE, 14):
        ended = second_rig.run(FIRST)
    assert (ended.code, ended.err) == (3, "")
    assert ended.document["error"] == {
        "type": "StoreError",
        "exit_code": 3,
        "problem": "cannot start source: too many open files",
        "why": f"{text.store}: Too many open files",
        "hint": "Raise the limit of this process: ulimit -n 4096",
    }
    assert text.judge(FIRST, text.run(FIRST), ()) == Judgement("rebuilt", "count, join, left, right, source, upper")


@pytest.mark.slow
def test_files_that_may_not_grow(text: Rig, second_rig: Rig) -> None:
    text.reset()
    with limits.ceiling(second_rig, resource.RLIMIT_FSIZE, 700):
        ended = second_rig.run(FIRST, "--force", "source")
    run = max((text.store / "runs").iterdir())  # names sort by time
    assert text.judge(FIRST, ended, ()) == Judgement(
        "refused",
        f"cannot write the log of the run: a file is larger than this process may write: {run}: File too large",
    )
    assert text.judge(FIRST, text.run(FIRST), ()).outcome in ("survived", "repaired")


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A disk of 4 MiB."""
    path = tmp_path_factory.mktemp("disk")
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(path)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    yield path
    gc.collect()  # stores on it that nobody uses any more
    subprocess.run(["umount", "--lazy", str(path)], check=True)


@pytest.fixture(scope="module")
def small(disk: Path, text: Rig) -> Rig:
    """Plain functions on that disk, run in this process."""
    return text.twin(disk / "text")


@needs_root
@pytest.mark.parametrize("number", mostly_slow(range(4), 1))
def test_a_full_disk(small: Rig, number: int) -> None:
    description, judgement = limits.trial(small, Random(f"2026-11-{number}"), "full")
    assert judgement.outcome != "wrong", f"{description}: {judgement.why}"


@needs_root
def test_a_stage_that_fills_the_disk_says_so_although_its_log_cannot(disk: Path) -> None:
    project = Project.make(disk / "project")
    project.edit(
        "stages.py",
        '(context.output / "text").write_text(text)',
        '(context.output / "text").write_bytes(bytes(8 << 20))',
    )
    failure = project.run()["make"].failure
    assert failure is not None
    assert failure.problem == "the disk is full"
    assert (
        failure.why
        == f"make raised OSError: [Errno 28] No space left on device\nat {project.folder}/stages.py:12 in make"
    )
    full = "Nothing that was stored is lost. Free some space and run it again: df -h "
    assert failure.hint.startswith(f"{full}{project.store} {gettempdir()}\n")


LONG = f"a folder with spaces, ünïcode and 日本/{'x' * 200}/{'y' * 200}"


def test_a_path_with_spaces_unicode_and_hundreds_of_characters(tmp_path: Path) -> None:
    project = Project.make(tmp_path / LONG / "project")
    assert built(project.run()) == ["make", "upper", "count"]
    assert built(project.run()) == []
    assert project.text("upper") == "A B!"


@pytest.mark.slow
def test_models_with_external_data_on_such_a_path(tmp_path: Path) -> None:
    """The libraries that read and write them get that path, too."""
    project = Project(tmp_path / LONG / "project", tmp_path / LONG / "store")
    project.folder.mkdir(parents=True)
    write_model(project.folder)
    assert built(project.run()) == ["take", "simplify", "int8"]
    assert built(project.run()) == []


def test_a_stage_with_a_name_of_hundreds_of_characters(tmp_path: Path) -> None:
    text = PIPELINE.replace("needs: make}", f"needs: make, matrix: {{mark: [{'m' * 300}]}}}}")
    project = Project.make(tmp_path / "project", text)
    assert len(built(project.run())) == 3
    assert built(project.run()) == []


def test_a_stage_that_looks_for_files_that_cannot_be(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project")
    project.edit(
        "stages.py",
        '    (context.output / "text").write_text(text)',
        '    for name in ("x" * 300, "stages.py/below", "y/" * 3000):\n'
        "        try:\n"
        "            open(context.root / name)\n"
        "        except OSError:\n"
        "            pass\n"
        '    (context.output / "text").write_text(text)',
    )
    assert built(project.run()) == ["make", "upper", "count"]
    assert built(project.run()) == []


@needs_root
def test_a_store_on_a_disk_that_is_read_only(disk: Path, small: Rig) -> None:
    small.reset()
    gc.collect()  # files of earlier tests that are still open for writing
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    nothing, forced = small.run(FIRST), small.run(FIRST, "--force")
    planned = small.start(small, ("plan", "pipeline.yaml", "--json", "--store", str(small.store)))
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    assert small.complaint(nothing) is None
    assert set(nothing.stages("cached")) == set(small.subject.stages)
    assert forced.code == 3
    assert (
        forced.document["error"]["problem"] == f"the store {small.store} cannot be written, and 6 of 6 stages would run"
    )
    assert {step["action"] for step in planned.document["steps"]} == {"cached"}
    assert small.judge(FIRST, small.run(FIRST), ()) == Judgement("survived")


@needs_root
@forks
def test_a_store_of_another_user(text: Rig) -> None:
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        rig = text.twin(Path(folder) / "text")
        refused = in_child(lambda: json.dumps(rig.run(FIRST, "--force").document["error"]), NOBODY)
        error = json.loads(refused)
        assert error["problem"] == f"the store {rig.store} cannot be written, and 6 of 6 stages would run"
        assert error["hint"] == f"Choose a place that can be written (--store DIR): ls -ld {rig.store}"
        assert rig.judge(FIRST, rig.run(FIRST), ()) == Judgement("survived")


def test_a_store_that_may_not_be_written_to(text: Rig) -> None:
    text.reset()
    remove(text.store / "runs")
    (text.store / "runs").symlink_to("/proc/1")  # nobody makes folders there, root neither
    judgement = text.judge(FIRST, text.run(FIRST), ())
    assert judgement.outcome == "refused"
    assert judgement.why.startswith("cannot read from the store: permission denied: ")
