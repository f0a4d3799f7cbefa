"""Locks between processes: exclusive, free when their owner dies, fair to those who measure."""

from __future__ import annotations

import errno
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orun.errors import StoreError
from orun.fs import locks as locks_module
from orun.fs import machine_folder
from orun.fs.locks import Lock
from orun.fs.machine_locks import MachineLock, build_machine_lock
from orun.store import Store
from tests.faults.calls import Failing, Fault
from tests.store.support import NOBODY, forks, in_child, needs_root

HOLDER = """
import sys
from orun.fs.locks import Lock
lock = Lock(sys.argv[1])
lock.acquire(lambda: print("waiting", flush=True))
print("held", flush=True)
sys.stdin.readline()
"""


class Holder:
    """Another process that takes a lock and keeps it until it is told to end."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def end(self) -> None:
        self.process.communicate("\n")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "key"


@pytest.fixture
def holder(path: Path) -> Iterator[Holder]:
    started = Holder(path)
    yield started
    started.process.kill()
    started.process.communicate()


def test_one_process_holds_it(path: Path, holder: Holder) -> None:
    assert holder.says() == "held"
    lock = Lock(path)
    assert (lock.try_acquire(), lock.held) == (False, False)
    holder.end()
    assert (lock.try_acquire(), lock.held) == (True, True)
    assert lock.try_acquire()
    lock.release()
    assert not lock.held
    lock.release()
    assert not path.exists()


def test_it_is_exclusive_within_a_process_too(store: Store) -> None:
    first, second = store.build_key_lock("a" * 64), store.build_key_lock("a" * 64)
    with first:
        assert first.try_acquire()
        assert not second.try_acquire()
        assert store.build_key_lock("b" * 64).try_acquire()
    assert second.try_acquire()


def test_the_kernel_frees_it_when_its_owner_is_killed(path: Path, holder: Holder) -> None:
    assert holder.says() == "held"
    holder.process.kill()
    holder.process.wait()
    assert Lock(path).try_acquire()


def test_who_waits_is_told_once_and_gets_it(path: Path) -> None:
    lock = Lock(path)
    lock.acquire(lambda: pytest.fail("nobody else has it"))
    waiter = Holder(path)
    assert waiter.says() == "waiting"
    lock.release()  # removes the file that the other waits on: it must look again
    assert waiter.says() == "held"
    assert not Lock(path).try_acquire()
    waiter.end()


def test_many_waiters_get_it_one_after_the_other(path: Path) -> None:
    lock = Lock(path)
    lock.acquire()
    waiters = [Holder(path) for _ in range(4)]
    assert [waiter.says() for waiter in waiters] == ["waiting"] * 4
    lock.release()
    while waiters:
        (owner,) = ready(waiters)
        assert owner.says() == "held"
        assert not Lock(path).try_acquire()
        waiters.remove(owner)
        owner.end()
    assert Lock(path).try_acquire()


def ready(holders: list[Holder]) -> list[Holder]:
    """Those that have something to say, once one of them has."""
    outputs = [holder.process.stdout for holder in holders if holder.process.stdout]
    speaking, _, _ = select.select(outputs, [], [])
    return [holder for holder in holders if holder.process.stdout in speaking]


def test_ctrl_c_ends_the_waiting(path: Path) -> None:
    with Lock(path) as lock:
        lock.acquire()
        waiter = Holder(path)
        assert waiter.says() == "waiting"
        waiter.process.send_signal(signal.SIGINT)
        _, errors = waiter.process.communicate()
    assert errors.rstrip().endswith("KeyboardInterrupt")


def test_a_lock_file_that_was_removed_excludes_nobody(path: Path) -> None:
    """The new owner is whoever holds the file that has the name now."""
    first, second, third = Lock(path), Lock(path), Lock(path)
    assert first.try_acquire()
    path.unlink()
    assert second.try_acquire()
    first.release()
    assert path.exists()  # it is the second one's
    assert not third.try_acquire()
    second.release()
    assert third.try_acquire()


@forks
def test_a_forked_child_does_not_keep_it(path: Path) -> None:
    lock = Lock(path)
    lock.acquire()
    parent, child = socket.socketpair()
    with parent, child:
        process = os.fork()
        if process == 0:
            child.send(b"%d" % lock.held)
            child.recv(1)
            os._exit(0)
        assert parent.recv(1) == b"0"
        lock.forget()  # as the parent's death would
        assert Lock(path).try_acquire()
        parent.send(b".")
        os.waitpid(process, 0)


def test_a_lock_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "no folder" / "key"
    with pytest.raises(StoreError) as caught:
        Lock(path).try_acquire()
    assert str(caught.value) == (
        f"cannot take a lock: there is no {path.parent} (any more)\n"
        f"  {path}: No such file or directory\n"
        "  hint: If it was moved, put it back, or say where it is, and run again"
    )
    with pytest.raises(ValueError, match=r"is not held$"):
        _ = Lock(path).descriptor


def shared(folder: Path) -> MachineLock:
    return MachineLock(exclusive=False, folder=folder)


def alone(folder: Path) -> MachineLock:
    return MachineLock(exclusive=True, folder=folder)


def test_stages_share_the_machine_and_measuring_has_it_alone(tmp_path: Path) -> None:
    first, second, measuring = shared(tmp_path), shared(tmp_path), alone(tmp_path)
    with first, second, measuring:
        assert first.try_acquire()
        assert second.try_acquire()
        assert first.try_acquire()
        assert not measuring.try_acquire()
        first.release()
        assert not measuring.try_acquire()
        second.release()
        assert measuring.try_acquire()
        assert measuring.try_acquire()
        assert (measuring.held, first.held) == (True, False)
        assert not first.try_acquire()
        assert not alone(tmp_path).try_acquire()
        measuring.release()
        assert first.try_acquire()


def test_who_wants_the_machine_alone_goes_first(tmp_path: Path) -> None:
    running, late, measuring = shared(tmp_path), shared(tmp_path), alone(tmp_path)
    with running, late, measuring:
        assert running.try_acquire()
        assert not measuring.try_acquire()
        assert not late.try_acquire()  # though the machine is only shared
        running.release()
        assert not late.try_acquire()
        assert measuring.try_acquire()
        measuring.release()
        assert late.try_acquire()


def test_giving_up_lets_the_others_on(tmp_path: Path) -> None:
    running, late, measuring = shared(tmp_path), shared(tmp_path), alone(tmp_path)
    with running, late:
        assert running.try_acquire()
        assert not measuring.try_acquire()
        measuring.release()
        assert late.try_acquire()


def test_two_that_want_it_alone_take_turns(tmp_path: Path) -> None:
    first, second = alone(tmp_path), alone(tmp_path)
    with first, second:
        assert first.try_acquire()
        assert not second.try_acquire()
        assert not shared(tmp_path).try_acquire()
        first.release()
        assert not first.held
        assert second.try_acquire()


def test_the_lock_of_the_machine_is_in_the_folder_of_all_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORUN_LOCKS")
    assert machine_folder.choose_machine_folder() == Path("/tmp")  # noqa: S108
    monkeypatch.setenv("ORUN_LOCKS", str(tmp_path))
    with build_machine_lock(exclusive=True) as measuring:
        assert measuring.try_acquire()
        assert not build_machine_lock(exclusive=False).try_acquire()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["orun-machine-turn.lock", "orun-machine.lock"]


def test_where_that_folder_cannot_be_written_the_lock_is_in_that_of_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container whose root is read-only."""
    monkeypatch.delenv("ORUN_LOCKS")
    monkeypatch.setattr(machine_folder, "DEFAULT", str(tmp_path / "nowhere"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with build_machine_lock(exclusive=True) as measuring:
        assert measuring.try_acquire()
        assert (tmp_path / "orun-machine.lock").exists()
        assert not build_machine_lock(exclusive=False).try_acquire()
    monkeypatch.delenv("TMPDIR")
    with pytest.raises(StoreError) as caught:
        build_machine_lock(exclusive=True)
    assert str(caught.value) == (
        "there is no folder for the lock that all orun processes of this machine share\n"
        f"  {tmp_path / 'nowhere'} cannot be written\n"
        "  hint: Name a folder that can be written: export ORUN_LOCKS=FOLDER"
    )


def test_a_named_folder_of_the_lock_of_the_machine_must_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, why in (("/nowhere", "/nowhere cannot be written"), ("near", "near is not an absolute path")):
        monkeypatch.setenv("ORUN_LOCKS", folder)
        with pytest.raises(StoreError, match=why):
            build_machine_lock(exclusive=True)


@needs_root
@forks
def test_another_user_shares_the_lock_of_the_machine(everybodys: Path) -> None:
    def tries() -> list[bool]:
        return [alone(everybodys).try_acquire(), shared(everybodys).try_acquire()]

    with alone(everybodys) as measuring:
        before = os.umask(0o077)
        assert measuring.try_acquire()
        os.umask(before)
        assert in_child(tries, NOBODY) == "[False, False]"
        measuring.release()
        assert in_child(tries, NOBODY) == "[True, True]"


def test_a_lock_that_the_system_closes_with_an_error_is_closed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second close would be that of whichever file has the number by then."""
    close, closed = os.close, list[int]()

    def fail(descriptor: int) -> None:
        close(descriptor)
        closed.append(descriptor)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    lock = Lock(tmp_path / "lock")
    lock.acquire()
    number = lock.descriptor
    monkeypatch.setattr(os, "close", fail)
    lock.release()
    lock.forget()
    assert (closed, lock.held, (tmp_path / "lock").exists()) == ([number], False, False)


def test_a_lock_whose_file_cannot_be_removed_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "locks" / "key"
    path.parent.mkdir()

    def fail(path: str) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    with Lock(path) as lock, monkeypatch.context() as patch:
        lock.acquire()
        patch.setattr(os, "unlink", fail)
        lock.release()
    assert path.exists()
    locks_module.remove_free_locks(path.parent)
    assert not path.exists()


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="a library is compiled and preloaded")
@pytest.mark.parametrize(("how", "message"), [("once", "True"), ("from then on", "[Errno 116] Stale file handle")])
def test_a_lock_file_that_another_host_removes_while_it_is_waited_for(
    fault_library: Path, tmp_path: Path, how: str, message: str
) -> None:
    """GlusterFS and NFS say so; one for whom everything there is stale is told."""
    take = f"""
from orun.fs import locks
locks.STALE_SECONDS = 0.2
try:
    print(locks.Lock({str(tmp_path / "locks")!r} + "/key").take(wait=True))
except OSError as error:
    print(error)
"""
    (tmp_path / "locks").mkdir()
    failing = Failing.make(fault_library, tmp_path, tmp_path / "locks")
    failing.set(Fault("lock", "all", 1, errno.ESTALE, how))
    process = subprocess.run(
        [sys.executable, "-c", take],
        env={**failing.variables, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (process.stdout, process.stderr) == (f"{message}\n", "")
