"""Collections beside running processes, and collections that die."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest
from blake3 import blake3

from orun.errors import StoreError
from orun.fs.locks import Lock
from orun.store import Store
from orun.store.gc import Keep, collect
from orun.store.gc_candidates import GcCandidates
from orun.store.verify import verify
from tests.store.crash import Disk, child
from tests.store.support import add, add_bytes, content, fill, needs_proc, object_path
from tests.store.workload import STAGES, run

TOP = Path(__file__).parents[2]
NOTHING = Keep(runs=0)


@pytest.fixture
def digest(store: Store) -> str:
    """A tree in a store that no process has open."""
    tree = add(store, {"model.onnx": b"model"})
    store.close()
    return tree


ASKER = """
import sys
from pathlib import Path
from orun.store import Store
with Store.open(Path(sys.argv[1])) as store:
    store.create_run("bert")
    print("asking", flush=True)
    print(store.check(sys.argv[2]))
"""


def test_who_wants_what_is_condemned_waits_for_the_end(store: Store, digest: str) -> None:
    candidates = store.root / "tmp" / "condemned"
    with Lock(store.root / "locks" / "gc") as lock:
        lock.acquire()
        candidates.write_text(f"{digest}\n")
        asker = subprocess.Popen(
            [sys.executable, "-c", ASKER, str(store.root), digest], cwd=TOP, stdout=subprocess.PIPE, text=True
        )
        assert asker.stdout is not None
        assert asker.stdout.readline() == "asking\n"
        object_path(store, digest).unlink()
        candidates.unlink()
    assert asker.communicate()[0] == "('its list of files is missing or was damaged',)\n"


def test_a_collection_is_waited_for_without_a_lock_that_it_may_want(
    store: Store, digest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    free: list[bool] = []

    def look(_: GcCandidates, digests: Collection[str]) -> None:
        if digest in digests:
            free.append(Lock(store.root / "locks" / "out%20bert%20int8").try_acquire())

    monkeypatch.setattr(GcCandidates, "wait_for", look)
    assert store.check_out(digest, "bert", "int8")[1]
    assert free == [True]


def test_the_list_of_a_collection_that_was_killed_holds_nobody_up(store: Store, digest: str) -> None:
    candidates = store.root / "tmp" / "condemned"
    candidates.write_text(f"{digest}\n")
    output = subprocess.check_output([sys.executable, "-c", ASKER, str(store.root), digest], cwd=TOP, text=True)
    assert output == "asking\n()\n"
    assert not candidates.exists()


def test_the_next_run_removes_what_a_collection_has_left_that_was_killed(store: Store, digest: str) -> None:
    """Runs with nothing to do went the long way for ever: a store in which something temporary lies is not in order."""
    candidates = store.root / "tmp" / "condemned"
    candidates.write_text(f"{digest}\n")
    with Lock(store.root / "locks" / "gc") as lock:  # as while a collection goes on
        lock.acquire()
        store.sweep()
        assert candidates.exists()
    store.sweep()
    assert content(store.root / "tmp") == {}


def test_what_a_collection_has_left_that_was_killed_is_in_no_other_one_s_way(
    store: Store,
    digest: str,  # noqa: ARG001 - it is there
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In containers processes have the same ids again and again, of which the name of a file had been made."""
    own = os.getpid
    monkeypatch.setattr(os, "getpid", lambda: 7)
    process = os.fork()
    if not process:
        monkeypatch.setattr(os, "rename", lambda *_: os.kill(own(), signal.SIGKILL))
        collect(store, NOTHING)
    assert os.waitpid(process, 0)[1] == signal.SIGKILL
    assert collect(store, NOTHING).objects > 0
    assert content(store.root / "tmp") == {}


@pytest.fixture
def late(store: Store, digest: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:  # noqa: ARG001 - it is there first
    """Another process's store, which waits at each lease for a collection that has removed what is leased."""

    def removed(_: GcCandidates, digests: Collection[str]) -> None:
        for leased in digests:
            object_path(store, leased).unlink(missing_ok=True)

    with Store.open(store.root) as other:
        monkeypatch.setattr(GcCandidates, "wait_for", removed)
        yield other


def test_a_run_leases_a_tree_before_it_looks(late: Store, digest: str) -> None:
    assert late.read_tree(digest)
    late.create_run("bert")
    assert late.check(digest) == ("its list of files is missing or was damaged",)


def test_a_run_leases_an_object_before_it_reads(late: Store, digest: str) -> None:
    late.create_run("bert")
    with pytest.raises(StoreError, match=f"^object {digest} is not in the store"):
        late.read(digest)


def test_what_is_stored_again_is_leased_before_it_is_found_to_be_there(late: Store, digest: str) -> None:
    assert add_bytes(late, b"model") == blake3(b"model").hexdigest()
    assert object_path(late, blake3(b"model").hexdigest()).read_bytes() == b"model"
    assert late.add_tree(fill(late.make_session_folder("output"), {"model.onnx": b"model"})).digest == digest
    assert late.check(digest) == ()


@pytest.mark.parametrize(
    "put",
    [
        lambda store, digest: store.check_out(digest, "bert", "int8"),
        lambda store, digest: store.materialize(digest, store.root.parent / "model"),
    ],
)
def test_what_is_put_somewhere_is_leased_before(late: Store, digest: str, put: Callable[[Store, str], object]) -> None:
    with pytest.raises(StoreError, match=r"^model.onnx cannot be taken from the store"):
        put(late, digest)


@pytest.mark.slow
def test_running_processes_are_not_disturbed(tmp_path: Path) -> None:
    root = tmp_path / "store"
    clean = run(tmp_path / "clean")["digests"]
    command = [sys.executable, "-m", "tests.store.workload", str(root), "8"]
    processes = [subprocess.Popen(command, cwd=TOP, stdout=subprocess.DEVNULL) for _ in range(3)]
    collected = 0
    with Store.open(root) as store:
        while any(process.poll() is None for process in processes):
            collected += len(collect(store, NOTHING).removed)
        assert [process.returncode for process in processes] == [0, 0, 0]
        assert verify(store).problems == ()
        assert store.drain_notices() == []
    assert collected > 0
    assert run(root)["digests"] == clean


def test_who_makes_again_what_an_old_run_had_made_waits_for_the_end(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are gone, but the collection would take the new record for that of the old run, and remove it."""
    trees = set(run(store.root)["digests"].values())
    assert len(collect(store, NOTHING).removed) == len(STAGES)
    announced: list[str] = []
    monkeypatch.setattr(GcCandidates, "write", lambda _, names: announced.extend(names))
    collect(store, NOTHING)
    assert sorted(announced) == sorted(trees)


@needs_proc
@pytest.mark.slow
@pytest.mark.parametrize("step", [3, 1])
def test_a_collection_that_dies_anywhere_leaves_a_whole_store(step: int) -> None:
    """In a process of its own, which forks: see `crash.py`."""
    code = f"from tests.store.test_gc_processes import die_while_collecting; die_while_collecting({step})"
    report = json.loads(subprocess.check_output([sys.executable, "-c", code], cwd=TOP, text=True))
    assert len(report) > 20 // step
    assert [death for death in report if death["problems"]] == []
    assert report[0]["built"] == []
    assert report[-1]["built"] == list(STAGES)
    assert (report[0]["run"], report[-1]["run"]) == (True, False)


def die_while_collecting(step: int) -> None:
    """Kill a collection before each of so many changes; what is wrong with the store then, and what is built next.

    Of the run that it removes all is left, or nothing.
    """
    memory = Path("/dev/shm")  # noqa: S108
    report = []
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        run(Path(folder) / "store")
        (began,) = (Path(folder) / "store" / "runs").iterdir()
        for name in ("events.jsonl", "log", "report.html", "report.md"):
            (began / name).write_text(name)
        before = content(began)
        os.utime(began, (0, 0))
        code, death = -9, 1 - step
        while code != 0:
            death += step
            root = Path(folder) / f"copy{death}"
            shutil.copytree(Path(folder) / "store", root, symlinks=True, copy_function=os.link)

            def doomed(root: Path = root, death: int = death) -> None:
                Disk(root, death, power=False)
                collect(Store.open(root), NOTHING)

            code, _ = child(doomed)
            with Store.open(root) as store:
                problems = verify(store).problems
            left = content(root / "runs" / began.name)
            if left not in ({}, before):
                problems += ("half a run",)
            report.append({"problems": problems, "run": bool(left), "built": run(root)["built"]})
    print(json.dumps(report))  # noqa: T201
