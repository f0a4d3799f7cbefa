"""Work that a stage began and did not end when its function returned: no half of a file is stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from orun.errors import StageError
from orun.executors import JobResult, LocalExecutor
from orun.stages.contract import Spec
from tests.executors.support import Project, failure, log_of, outcomes, result, until_progress
from tests.thin import mostly_slow

CODE = """
import atexit, gc, logging, multiprocessing, os, subprocess, threading, time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

KEPT = []


def later(path):
    with open(path, "w") as file:
        file.write("half, ")
        file.flush()
        time.sleep(0.1)
        file.write("whole")


def held(path):
    path.write_text("whole")
    while not path.with_name("done").exists():
        time.sleep(0.01)


class Around:
    def __init__(self, file):
        self.file, self.self = file, self


def daemon(path):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            file = open(path, "w")
            path.with_name("open").touch()
            time.sleep(60)
        os._exit(0)
    while not path.with_name("open").exists():
        time.sleep(0.01)


def log(path):
    handler = logging.FileHandler(path)
    logging.getLogger("mine").addHandler(handler)
    logging.getLogger("mine").warning("half, whole")


def f(context):
    path = context.output / "text"
    BEGIN
"""
ENDED = {
    "a thread": "threading.Thread(target=later, args=(path,)).start()",
    "a pool of threads": "ThreadPoolExecutor().submit(later, path)",
    "a pool of processes": "ProcessPoolExecutor(1, multiprocessing.get_context('fork')).submit(later, path)",
    "a pool of joblib": "from joblib.externals import loky; loky.get_reusable_executor(1).submit(later, path)",
    "a process": "multiprocessing.get_context('fork').Process(target=later, args=(path,)).start()",
    "a file that is nobody's": "gc.disable(); Around(open(path, 'w')).file.write('half, whole')",
    "a log": "log(path)",
    "a function for the end": "atexit.register(later, path)",
    "a pool that such a function begins": "atexit.register(lambda: ThreadPoolExecutor().submit(later, path).result())",
    "a file that is read": "path.write_text('half, whole'); KEPT.append(open(path))",
}
LEFT = {
    "a file": ("KEPT.append(open(path, 'w')); KEPT[0].write('whole')", "what is still in its buffer is not stored"),
    "a program": (
        "subprocess.Popen(['sleep', '60'], stdout=path.open('wb'))",
        "a process that it started writes to it",
    ),
    "a daemon": ("daemon(path)", "a process that it started writes to it"),
}
FILES = Spec(output="files")


@pytest.mark.parametrize("begin", mostly_slow(ENDED, *(ENDED.keys() - {"a pool of joblib"})))
def test_what_ends_with_a_program_is_waited_for(executor: LocalExecutor, project: Project, begin: str) -> None:
    project.write("pipelines/mine.py", CODE.replace("BEGIN", ENDED[begin]))
    job = project.job("mine.py:f", spec=FILES)
    result(executor, job)
    assert (Path(job.output) / "text").read_text().split() == ["half,", "whole"]


@pytest.mark.parametrize(
    ("begin", "left"),
    [
        ("threading.Thread(target=held, name='server', args=(path,)).start()", "server"),
        ("multiprocessing.get_context('fork').Process(target=held, name='job', args=(path,)).start()", "job"),
    ],
    ids=["a thread", "a process"],
)
def test_what_is_waited_for_is_told(executor: LocalExecutor, project: Project, begin: str, left: str) -> None:
    soon = "from orun.executors.local import ending; ending.PATIENCE = 0.1"  # in the stage's process alone
    project.write("pipelines/mine.py", CODE.replace("BEGIN", f"{soon}; {begin}"))
    job = project.job("mine.py:f", spec=FILES)
    executor.start(job)
    assert [progress.text for progress in until_progress(executor)] == [f"it has returned, and left {left} running"]
    Path(job.output, "done").touch()
    assert isinstance(outcomes(executor, 1)[job.stage], JobResult)


@pytest.mark.parametrize(("begin", "why"), LEFT.values(), ids=LEFT)
def test_what_is_left_open_is_refused(executor: LocalExecutor, project: Project, begin: str, why: str) -> None:
    project.write("pipelines/mine.py", CODE.replace("BEGIN", begin))
    error = failure(executor, project.job("mine.py:f", spec=FILES))
    assert (error.problem, error.why) == ("f left text open", why)
    assert error.hint.startswith("Close what is written to before the function returns")


LIMITED = """
import gc, resource


class Around:
    def __init__(self, file):
        self.file, self.self = file, self


def limit(size):  # as a full disk does
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def f(context):
    path = context.output / "text"
    limit(4)
    WRITE
"""


def test_what_python_could_not_write_when_it_closed_a_file_is_refused(
    executor: LocalExecutor, project: Project
) -> None:
    """Python says nothing: half of a file was stored."""
    write = "gc.disable(); Around(open(path, 'w')).file.write('half, whole')"
    project.write("pipelines/mine.py", LIMITED.replace("WRITE", write))
    error = failure(executor, project.job("mine.py:f", spec=FILES))
    assert (error.problem, error.why) == (
        "f could not write all of text",
        "it was left open, and when it was closed: File too large",
    )
    assert error.hint.startswith("Close what is written to before the function returns")


def test_a_file_elsewhere_that_python_could_not_write_is_no_output(executor: LocalExecutor, project: Project) -> None:
    write = "path.touch(); open('cache', 'w').write('half, whole'); limit(resource.RLIM_INFINITY)"
    project.write("pipelines/mine.py", LIMITED.replace("WRITE", write))
    result(executor, project.job("mine.py:f", spec=FILES))


SOCKETS = """
from multiprocessing.connection import Listener
import sys
from pathlib import Path


def f(context, *, where: str):
    with Listener(family="AF_UNIX") as listener:
        Path(where).write_text(listener.address)
    END

"""


@pytest.mark.parametrize("end", ["return {'one': 1.0}", "raise ValueError('one')"], ids=["it returns", "it fails"])
def test_nothing_is_left_where_temporary_files_are(
    executor: LocalExecutor, project: Project, tmp_path: Path, end: str
) -> None:
    """The folder of the sockets of a server that forks, as `measure/latency` has one."""
    project.write("pipelines/mine.py", SOCKETS.replace("END", end))
    executor.start(job := project.job("mine.py:f", params={"where": str(tmp_path / "where")}))
    assert job.stage in outcomes(executor, 1)
    folder = Path((tmp_path / "where").read_text()).parent
    assert folder.name.startswith("pymp-")
    assert not folder.exists()


AT_THE_END = """
import atexit, sys


def say(text):
    print(text)


def f(context, *, fails: bool):
    atexit.register(say, "the end")
    atexit.register(sys.exit, "not so")
    atexit.register(say, "the end of the end")
    if fails:
        raise ValueError("before")
    return {"one": 1.0}
"""


@pytest.mark.parametrize("fails", [False, True], ids=["it returns", "it fails"])
def test_functions_for_the_end_of_a_program_are_called(executor: LocalExecutor, project: Project, fails: bool) -> None:
    """The last one first, and what one of them raises is told in the log alone: as in a program."""
    project.write("pipelines/mine.py", AT_THE_END)
    executor.start(job := project.job("mine.py:f", params={"fails": fails}))
    assert isinstance(outcomes(executor, 1)[job.stage], StageError if fails else JobResult)
    lines = log_of(job).splitlines()
    raised = next(number for number, line in enumerate(lines) if line == "SystemExit: not so")
    assert lines.index("the end of the end") < raised < lines.index("the end")


@pytest.mark.parametrize(
    "begin",
    [
        "multiprocessing.get_context('fork').Process(target=time.sleep, args=(600,)).start()",
        "threading.Thread(target=time.sleep, args=(600,)).start()",
        "POOL.submit(time.sleep, 600)",
    ],
    ids=["a process", "a thread", "a pool"],
)
def test_a_failure_is_told_at_once(executor: LocalExecutor, project: Project, begin: str) -> None:
    """And not when what it left running has ended, as a program would."""
    pool = "POOL = ProcessPoolExecutor(1, multiprocessing.get_context('fork'))\n\ndef f(context):"
    code = CODE.replace("def f(context):", pool).replace("BEGIN", f"{begin}; time.sleep(0.05); raise ValueError('one')")
    project.write("pipelines/mine.py", code)
    assert failure(executor, project.job("mine.py:f", spec=FILES)).problem == "f raised ValueError: one"


SHARES = """
import os
from multiprocessing.shared_memory import SharedMemory

from joblib.externals import loky


def f(context):
    names = {SharedMemory(create=True, size=8).name}
    loky.get_reusable_executor(1).submit(abs, -1).result()
    names |= {name for name in os.listdir("/dev/shm") if str(os.getpid()) in name.replace("-", "_").split("_")}
    (context.output / "names").write_text(" ".join(names))
"""


SHARED = Path("/dev") / "shm"


@pytest.mark.skipif(not SHARED.is_dir(), reason="shared memory has no folder here")
def test_what_trackers_remove_at_the_end_of_a_program_is_removed(executor: LocalExecutor, project: Project) -> None:
    """Shared memory and semaphores outlive processes; those of a pool that is kept for the next call do not leak."""
    project.write("pipelines/mine.py", SHARES)
    job = project.job("mine.py:f", spec=Spec(output="files"))
    result(executor, job)
    names = (Path(job.output) / "names").read_text().split()
    assert len(names) > 1
    assert [name for name in names if (SHARED / name).exists()] == []
    assert log_of(job).count("leaked") == 1  # the memory, of which nobody else will ever free it


FAILS = """
from joblib.externals import loky


def f(context):
    loky.get_reusable_executor(1).submit(abs, -1).result()
    raise ValueError("one")
"""


def test_a_pool_that_is_kept_for_the_next_call_leaves_nothing_of_a_stage_that_fails(
    executor: LocalExecutor, project: Project
) -> None:
    """Loky frees its semaphores at the end of a program; their tracker had told in the log that they leaked."""
    project.write("pipelines/mine.py", FAILS)
    job = project.job("mine.py:f")
    assert failure(executor, job).problem == "f raised ValueError: one"
    assert "leaked" not in log_of(job)


FORKS = """
import os, sys, time
import sys
from pathlib import Path


def f(context):
    child = os.fork()
    if child:
        end = os._exit

        def last(status):  # the stage has said what there is to say, and does not end before its copy
            Path("said").touch()
            os.waitpid(child, 0)
            end(status)

        os._exit = last
    while not (child or Path("said").exists()):
        time.sleep(0.01)
    END
    return {"child": float(not child)}


def odd(context):
    sys.stdout = sys.stderr = None
"""


@pytest.mark.parametrize("end", ["pass", "child or 1 / 0"])
def test_a_forked_copy_that_comes_back_too_says_nothing(executor: LocalExecutor, project: Project, end: str) -> None:
    """Its figures had been taken for the stage's, as what was said last."""
    project.write("pipelines/mine.py", FORKS.replace("END", end))
    assert result(executor, project.job("mine.py:f")).metrics["child"].value == 0.0


def test_streams_that_are_none_are_no_failure(executor: LocalExecutor, project: Project) -> None:
    project.write("pipelines/mine.py", FORKS)
    result(executor, project.job("mine.py:odd"))
