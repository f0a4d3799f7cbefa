"""Fixtures and settings of every test, wherever the suite was started."""

import gc
import importlib.util
import os
import signal
import sqlite3
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from orun.__main__ import COLLECTED_AT
from orun.executors import explain_partial_tracing

if TYPE_CHECKING:
    from orun.store import Store
    from tests.fork_servers import ForkServers

# A shell that starts a command in the background, as CI may, has it ignore SIGINT, and nohup SIGHUP. Processes inherit
# that: a test that interrupts one of its own would wait for ever.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, handler)

# Threads of PyTorch, NumPy and scikit-learn spin while they wait for one another: where each core has a test already,
# they take more time than they save. Libraries look when they are imported, in this process and in those below it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Without byte code there is none of another text: processes of tests have it, as those of users do.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# There is no TensorFlow for these versions of Python; on others its absence fails what needs it.
if sys.version_info >= (3, 14) and importlib.util.find_spec("tensorflow") is None:
    collect_ignore = [
        "stages/convert/test_every_layer.py",
        "stages/convert/test_tensorflow.py",
        "stages/quantize/test_qat_tensorflow.py",
    ]


@pytest.fixture(scope="session", autouse=True)
def machine_lock_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give this worker, and every orun that its tests start, a lock of the machine of their own.

    Tests of other workers that measure are not waited for.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ORUN_LOCKS", str(tmp_path_factory.mktemp("machine")))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_waiting_lines() -> Iterator[None]:
    """Keep the lines of a run that plans for long out of the exact outputs of tests: a busy machine is slow."""
    from orun.report import waiting

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiting, "IN_LOG", (3600.0, 3600.0))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Flush no temporary file to the disk in this process: only a power cut would show it, and a flush takes long."""
    device, fsync = tmp_path_factory.getbasetemp().stat().st_dev, os.fsync

    def flush(descriptor: int) -> None:
        if os.fstat(descriptor).st_dev != device:
            fsync(descriptor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", flush)
        patch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=UnflushedDatabase))
        yield


class UnflushedDatabase(sqlite3.Connection):
    """Connection to a database that is not flushed, whatever is asked for."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        with suppress(sqlite3.Error):  # a damaged one says so at the first statement of its user
            self.execute("PRAGMA synchronous")

    def execute(self, text: str, *values: Any) -> sqlite3.Cursor:
        """Execute a statement."""
        return super().execute("PRAGMA synchronous=OFF" if text.startswith("PRAGMA synchronous") else text, *values)


@pytest.fixture(scope="session", autouse=True)
def fork_servers(machine_lock_folder: None) -> Iterator["ForkServers"]:
    """Fork servers that runs in this process share."""
    del machine_lock_folder  # in the environment before that is looked at
    from orun.runner import run_session
    from tests.fork_servers import ForkServers

    servers = ForkServers()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_session, "LocalExecutor", servers.lend)
        yield servers
    servers.close()


@pytest.fixture
def probed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what is known of providers from one run of a test to the next: a probe takes a process."""
    from orun.environment import providers

    monkeypatch.setattr(providers.probe, "cache_clear", lambda: None)


@pytest.fixture
def own_fork_servers(fork_servers: "ForkServers") -> Iterator[None]:
    """Give each run of this test servers of its own."""
    with fork_servers.separate():
        yield


@pytest.fixture(scope="session")
def native_reads() -> None:
    """Leaves out a test where the kernel does not tell what native code and programs open, as in some containers.

    What orun sees nevertheless is tested where this is refused on purpose.
    """
    if why := explain_partial_tracing():
        pytest.skip(why)


@pytest.fixture(scope="session")
def fault_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that lets calls to the system fail."""
    from tests.faults.calls import compile_library
    from tests.shared import make_once

    return make_once(tmp_path_factory, "failing-calls", compile_library)


@pytest.fixture
def store(tmp_path: Path) -> "Iterator[Store]":
    """A store in a temporary folder."""
    from orun.store import Store

    with Store.open(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def everybodys() -> Iterator[Path]:
    """A folder that other users may enter, as they may not enter those of pytest."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o1777)
        yield Path(folder)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup() -> Generator[None, object, object]:
    """Hide a variable of pytest that would differ between runs that share fork servers."""
    with _without_name_of_test():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    """Hide the same variable while the test runs."""
    with _without_name_of_test():
        return (yield)


@contextmanager
def _without_name_of_test() -> Iterator[None]:
    name = os.environ.pop("PYTEST_CURRENT_TEST", None)
    try:
        yield
    finally:
        if name is not None:
            os.environ["PYTEST_CURRENT_TEST"] = name


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Spare the garbage collector what tests import: a million objects that it would look through, and that stay.

    Tests make many objects and few cycles: it looks as seldom as in a process of orun.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(COLLECTED_AT)
        gc.enable()
