"""A remote that is damaged, slow, down, or dies: the run ends right, and says what was wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import orun
from orun.core.run_record import StageResult
from orun.errors import RemoteError
from orun.remote.names import name_object, name_record
from tests.project import Project, built
from tests.remote.relay import Relay
from tests.remote.support import contents, holding, machine, named, notices, remove, traffic, write


@pytest.fixture
def shared(tmp_path: Path, remote: str) -> tuple[Project, str]:
    """A machine that has built nothing and a remote that another one has filled."""
    machine(tmp_path, "one").run(remote=remote)
    return machine(tmp_path, "other"), remote


def test_damaged_objects_are_refused_built_and_mended(shared: tuple[Project, str], tmp_path: Path) -> None:
    other, remote = shared
    flipped, truncated = holding(remote, b"a b"), holding(remote, b"A B!")
    write(remote, flipped, b"a c")
    write(remote, truncated, b"A ")
    assert built(other.run(remote=remote)) == ["make", "upper"]
    assert other.text("upper") == "A B!"
    assert notices(other) == [
        f"make: refused from the remote: {flipped} was damaged",
        f"upper: refused from the remote: {truncated}: it has 2 bytes instead of 4",
    ]
    assert (holding(remote, b"a b"), holding(remote, b"A B!")) == (flipped, truncated)
    assert built(machine(tmp_path, "third").run(remote=remote)) == []


def test_a_damaged_list_of_files_is_refused_and_mended(tmp_path: Path, other: Project, folder: str) -> None:
    machine(tmp_path, "one").run(remote=folder)
    items = contents(folder).items()
    name, data = next((name, data) for name, data in items if data.startswith(b'{"files"') and b'"size":4' in data)
    write(folder, name, data.replace(b'"path":"text"', b'"path":"../x"'))
    assert built(other.run(remote=folder)) == ["upper"]
    assert notices(other) == [f"upper: refused from the remote: {name} was damaged"]
    assert built(machine(tmp_path, "third").run(remote=folder)) == []


def test_records_that_are_none_are_refused(tmp_path: Path, first: Project, other: Project, folder: str) -> None:
    result = first.run(remote=folder)
    make, upper = (name_record(result[stage].key, 0) for stage in ("make", "upper"))
    write(folder, make, b"junk")
    write(folder, upper, b'{"format":1,"signatures":{}}\n{"key":1}')
    assert built(other.run(remote=folder)) == ["make", "upper"]
    assert notices(other) == [
        f"make: refused from the remote: {make}: it is not a record of orun",
        (
            f"upper: refused from the remote: a record of key {result['upper'].key}:"
            " it is not a result of this version of orun"
        ),
    ]
    assert built(machine(tmp_path, "third").run(remote=folder)) == []  # new records stand after these


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.slow
@pytest.mark.parametrize(("part", "special"), [("actions", pipe), ("objects", device)])
def test_what_is_no_file_in_a_folder_is_refused(
    tmp_path: Path, other: Project, folder: str, part: str, special: Callable[[Path], None]
) -> None:
    """To open a pipe would wait for ever, and a device has no end."""
    result = machine(tmp_path, "one").run(remote=folder)
    for name in named(folder, f"{part}/"):
        path = Path(folder.removeprefix("file://"), name)
        path.unlink()
        special(path)
    assert built(other.run(remote=folder)) == ["make", "upper"]
    assert notices(other) == [
        f"{stage.stage}: refused from the remote: {first_name(part, stage)}: it is a pipe or device, not a file"
        for stage in result.stages
    ]
    assert built(machine(tmp_path, "third").run(remote=folder)) == []


def first_name(part: str, stage: StageResult) -> str:
    """What is fetched first of a result: its record, or the list of its files."""
    return name_record(stage.key, 0) if part == "actions" else name_object(stage.tree)


@pytest.mark.parametrize(
    ("name", "why"), [("", "[Errno 17] File exists: "), ("actions", "Generic LocalFileSystem error: ")]
)
def test_a_pipe_in_the_place_of_a_folder_is_a_remote_that_is_down(
    tmp_path: Path, first: Project, name: str, why: str
) -> None:
    place = tmp_path / "remote"
    if name:
        place.mkdir()
    os.mkfifo(place / name)
    assert built(first.run(remote=f"file://{place}")) == ["make", "upper"]
    (notice,) = notices(first)
    assert notice.startswith(f"the remote file://{place} cannot be reached; the run goes on without it: {why}")


@pytest.mark.slow
def test_a_record_without_its_objects_is_no_result(tmp_path: Path, other: Project, folder: str) -> None:
    result = machine(tmp_path, "one").run(remote=folder)
    for name in named(folder, "objects/"):
        remove(folder, name)
    assert built(other.run(remote=folder)) == ["make", "upper"]
    assert notices(other) == [
        f"{stage.stage}: refused from the remote: {name_object(stage.tree)} is missing" for stage in result.stages
    ]
    assert built(machine(tmp_path, "third").run(remote=folder)) == []


@pytest.mark.slow
def test_a_remote_that_is_down_is_said_once(first: Project, s3: str, relay: Relay) -> None:
    relay.lives = 0
    result = first.run(remote=s3)
    assert (result.exit_code, built(result)) == (0, ["make", "upper"])
    (notice,) = notices(first)
    assert notice.startswith(f"the remote {s3} cannot be reached; the run goes on without it: Generic S3 error: ")
    assert "after 4 retries" in notice
    assert "password" not in notice
    assert len(relay.requests) == 5  # none for the second stage, none for pushes
    relay.lives = None
    assert built(first.run(remote=s3)) == []
    assert traffic(first) == "2 pushed"


def test_a_bucket_that_is_not_there_is_said(tmp_path: Path, s3: str) -> None:
    project, gone = machine(tmp_path, "one"), s3.replace("s3://", "s3://no-")
    assert built(project.run(remote=gone)) == ["make", "upper"]
    (notice,) = notices(project)
    assert notice == (
        f"the remote {gone} cannot be reached; the run goes on without it: "
        "there is no bucket or folder of that name to write to"
    )


@pytest.mark.parametrize("mode", ["read", "read-write"])
def test_a_folder_that_is_not_there_is_said_and_not_made(tmp_path: Path, mode: str) -> None:
    """Its name may be mistyped, or a share not be mounted."""
    project, folder = machine(tmp_path, "one"), tmp_path / "share" / "remote"
    assert built(project.run(remote=orun.Remote(f"file://{folder}", mode))) == ["make", "upper"]
    lacking = folder if mode == "read" else folder.parent
    assert notices(project) == [
        f"the remote file://{folder} cannot be reached; the run goes on without it: there is no folder {lacking}"
    ]
    assert not folder.parent.exists()


@pytest.mark.parametrize("mode", ["read", "read-write"])
def test_a_folder_that_is_required_must_be_there(tmp_path: Path, folder: str, mode: str) -> None:
    project, path = machine(tmp_path, "one"), folder.removeprefix("file://")
    with pytest.raises(RemoteError) as caught:
        project.run(remote=orun.Remote(folder, mode, required=True))
    assert str(caught.value) == (
        f"the remote {folder} cannot be reached\n"
        f"  there is no folder {path}\n"
        "  hint: See that it is there and lets you in, or go on without it: --remote off"
    )
    assert not Path(path).exists()


def test_a_remote_that_is_down_fails_a_run_that_requires_it(first: Project, s3: str, relay: Relay) -> None:
    relay.lives = 0
    with pytest.raises(RemoteError) as caught:
        first.run(remote=orun.Remote(s3, required=True))
    assert caught.value.exit_code == 3
    assert caught.value.problem == f"the remote {s3} cannot be reached"
    assert caught.value.hint == "See that it is there and lets you in, or go on without it: --remote off"
    assert not (first.store / "out" / "text").exists()


@pytest.mark.slow
def test_a_remote_that_dies_midway_is_resumed(first: Project, other: Project, s3: str, relay: Relay) -> None:
    relay.lives = 6
    result = first.run(remote=s3)
    assert (result.exit_code, built(result)) == (0, ["make", "upper"])
    (notice,) = notices(first)
    assert notice.startswith(f"the remote {s3} cannot be reached; the run goes on without it: ")
    relay.lives = None
    before = set(contents(s3))
    assert built(first.run(remote=s3)) == []
    assert before < set(contents(s3))
    assert built(other.run(remote=s3)) == []


@pytest.mark.slow
def test_a_fetch_that_dies_midway_builds(first: Project, other: Project, s3: str, relay: Relay) -> None:
    first.run(remote=s3)
    relay.lives = 2
    result = other.run(remote=s3)
    assert (result.exit_code, built(result)) == (0, ["make", "upper"])
    assert other.text("upper") == "A B!"
    assert not list((other.store / "tmp").glob("*/*fetched*"))


@pytest.mark.slow
def test_faults_of_the_server_are_tried_again(first: Project, other: Project, s3: str, relay: Relay) -> None:
    relay.failures = 2
    first.run(remote=s3)
    relay.failures = 2
    assert built(other.run(remote=s3)) == []
    assert notices(first) == notices(other) == []


@pytest.mark.slow
def test_a_remote_that_may_not_be_written_is_still_read(first: Project, other: Project, s3: str, relay: Relay) -> None:
    first.run(remote=s3, to=["make"])
    relay.refuse = "PUT"
    assert built(other.run(remote=s3)) == ["upper"]
    (notice,) = notices(other)
    assert notice.startswith(
        f"the remote {s3} cannot be written; nothing more is pushed, as with --remote-mode read: The operation "
    )
    assert traffic(other) == "1 fetched"


def start(project: Project, remote: str) -> subprocess.Popen[str]:
    """The pipeline run by a process of its own."""
    arguments = [str(project.folder / "pipeline.yaml"), "--store", str(project.store), "--remote", remote]
    command = [sys.executable, "-m", "orun", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=Path.cwd())


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_who_ends_while_pushing_leaves_nothing_behind(
    first: Project, s3: str, relay: Relay, how: signal.Signals
) -> None:
    relay.stalled = threading.Event()
    process = start(first, s3)
    assert process.stdout
    while not process.stdout.readline().startswith("info: pushing 2 results to the remote"):
        assert process.poll() is None
    os.kill(process.pid, how)
    output = process.communicate(timeout=60)[0]
    assert not relay.stalled.is_set(), "the run ends while its pushes hang"
    relay.stalled.set()
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert "warning: 2 results not pushed to the remote; the next run offers them again\n" in output
    relay.stalled = None
    assert built(first.run(remote=s3)) == []
    assert traffic(first) == "2 pushed"


@pytest.mark.slow
def test_two_machines_at_the_same_time_end_right(tmp_path: Path, s3: str) -> None:
    projects = [machine(tmp_path, name) for name in ("one", "two")]
    processes = [start(project, s3) for project in projects]
    ended = [(process.communicate(timeout=120)[0], process.returncode) for process in processes]
    assert [code for _, code in ended] == [0, 0], ended
    assert [project.text("upper") for project in projects] == ["A B!", "A B!"]
    assert len(named(s3, "actions/")) == 2
    assert built(machine(tmp_path, "third").run(remote=s3)) == []
