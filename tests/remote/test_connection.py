"""Operations in threads, and what becomes of them when the run ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from threading import Event
from time import monotonic

import pytest

from orun.environment.env_vars import SHARED_KEY
from orun.errors import UsageError
from orun.fs.machine_locks import build_machine_lock
from orun.remote.connection import Connection
from orun.remote.settings import Settings
from orun.remote.thread_pool import DaemonThreadPool
from orun.remote.transfers import Records, Transfers

LOOK_UP = partial(Transfers.read_records, key="1" * 64, first=0, count=1)


@pytest.fixture
def connection(folder: str) -> Iterator[Connection]:
    connection = Connection(Settings(folder, "read-write"), lambda _: None)
    yield connection
    connection.close()


def test_waiting_ends_with_an_operation(connection: Connection) -> None:
    future = connection.submit(LOOK_UP)
    start = monotonic()
    while not future.done():
        connection.wait(60)
    assert monotonic() - start < 60
    assert future.result() == Records((), (), more=False)


def test_an_error_of_an_operation_reaches_who_asks_for_its_result(connection: Connection) -> None:
    def fail(_: Transfers) -> None:
        raise KeyError("nonsense")

    with pytest.raises(KeyError, match="nonsense"):
        connection.submit(fail).result(60)


def test_a_key_that_is_not_usable(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SHARED_KEY, "short")
    with pytest.raises(UsageError, match="ORUN_REMOTE_KEY is too short"):
        connection.submit(LOOK_UP).result(60)


def test_a_transfer_that_waits_for_a_measurement_ends_with_the_run(connection: Connection) -> None:
    waiting = Event()

    def wait_for_machine(transfers: Transfers) -> None:
        waiting.set()
        with transfers.share_machine():
            raise AssertionError("the machine is held by a measurement")

    with build_machine_lock(exclusive=True) as measuring:
        assert measuring.try_acquire()
        future = connection.submit(wait_for_machine)
        assert waiting.wait(60)
        connection.close()
        assert type(future.exception(60)).__name__ == "CancelledError"


def test_a_closed_pool_cancels_what_has_not_started() -> None:
    pool, started, release = DaemonThreadPool(1), Event(), Event()

    def run() -> bool:
        started.set()
        return release.wait(60)

    running = pool.submit(run)
    waiting = pool.submit(int)
    assert started.wait(60)
    pool.shutdown()
    assert waiting.cancelled()
    assert pool.submit(int).cancelled()
    release.set()
    assert running.result(60)


def test_the_process_ends_while_a_call_hangs() -> None:
    code = (
        "import threading; from orun.remote.thread_pool import DaemonThreadPool; started = threading.Event()\n"
        "DaemonThreadPool(1).submit(lambda: started.set() or threading.Event().wait()); started.wait(); print('ended')"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ended.stdout == "ended\n"


def test_a_pool_is_closed_twice_while_its_threads_end() -> None:
    code = (
        "import sys; from orun.remote.thread_pool import DaemonThreadPool; sys.setswitchinterval(1e-6)\n"
        "for _ in range(50):\n"
        "    pool = DaemonThreadPool(8)\n"
        "    [call.result() for call in [pool.submit(int) for _ in range(8)]]\n"
        "    [pool.shutdown() for _ in range(64)]\n"
        "print('ended')"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ended.stdout == "ended\n"
