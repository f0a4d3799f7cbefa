from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from orun.core.serialization import encode
from orun.executors import Job, LocalExecutor
from orun.executors.local.channel import Channel
from orun.executors.tracing.native import NativeReads
from orun.executors.tracing.scope import build_scope
from orun.stages.contract import Spec
from tests.executors.models import affine
from tests.executors.support import Project, outcomes, result
from tests.seccomp import FORBID, WHY

# It runs the job that it is sent.
FORBIDDEN = f"""{FORBID}
import json, sys
from orun.core.serialization import decode
from orun.executors import Job, LocalExecutor
from orun.executors.tracing.availability import explain_partial_tracing
with LocalExecutor() as executor:
    executor.start(decode(Job, json.load(sys.stdin)))
    while not (events := executor.wait()):
        pass
    print(json.dumps([sorted(events[0].result.reads), events[0].result.untraced, explain_partial_tracing()]))
"""

BOTH = """
import ctypes
from pathlib import Path
def f(context, *, seen, unseen):
    Path(seen).read_text()
    ctypes.CDLL(None).fopen(unseen.encode(), b"r")
"""


def read_where_it_is_refused(job: Job) -> list[str]:
    """What a job is seen to read where the kernel does not tell, which its result says."""
    process = subprocess.run(
        [sys.executable, "-c", FORBIDDEN], input=json.dumps(encode(job)), capture_output=True, text=True, check=False
    )
    assert process.stderr == ""
    names: list[str]
    names, untraced, tried = json.loads(process.stdout)
    assert (untraced, tried) == (WHY, WHY)
    return names


def test_where_the_kernel_refuses_what_python_opens_is_found(project: Project) -> None:
    seen, unseen = project.write("seen.txt", ""), project.write("unseen.txt", "")
    project.write("pipelines/mine.py", BOTH)
    job = project.job("mine.py:f", params={"seen": str(seen), "unseen": str(unseen)})
    assert read_where_it_is_refused(job) == [f"{project.root}/mine.py", str(seen)]


@pytest.mark.slow
def test_where_the_kernel_refuses_external_data_of_a_model_is_found(project: Project) -> None:
    """Libraries open it: its weights were taken for unchanged, whatever they were."""
    model, data = project.root / "m.onnx", project.root / "m.data"
    onnx.save(affine(1000), model, save_as_external_data=True, location="m.data", size_threshold=0)
    spec = Spec(output="onnx", preload=("onnx",))
    job = project.job("orun.stages.convert.onnx", origin="built-in", spec=spec, params={"path": "m.onnx"})
    assert read_where_it_is_refused(job) == [str(data), str(model)]


@pytest.mark.usefixtures("native_reads")
def test_what_both_see_is_one_discovery(executor: LocalExecutor, project: Project) -> None:
    seen, unseen = project.write("seen.txt", ""), project.write("unseen.txt", "")
    project.write("pipelines/mine.py", BOTH)
    job = project.job("mine.py:f", params={"seen": str(seen), "unseen": str(unseen)})
    job_result = result(executor, job)
    assert list(job_result.reads) == [f"{project.root}/mine.py", str(seen), str(unseen)]
    assert job_result.untraced == ""


INTERRUPTED = """
import os, signal, sys
from orun.executors.local.channel import Channel
from orun.executors.tracing.seccomp import listen

channel = Channel.of(int(sys.argv[1]))
signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b"interrupted"))
channel.send({}, listen())
os.open(sys.argv[2], os.O_RDONLY)
"""


@pytest.mark.usefixtures("native_reads")
def test_a_report_that_does_not_wait_any_more_is_not_noted(tmp_path: Path) -> None:
    """Its thread was killed or interrupted meanwhile: what is read by the thread's id may be of another process."""
    data = tmp_path / "data.txt"
    data.write_text("0,1")
    ours, theirs = Channel.open_pair()
    command = [sys.executable, "-c", INTERRUPTED, str(theirs.fileno()), str(data)]
    with subprocess.Popen(command, pass_fds=(theirs.fileno(),), stdout=subprocess.PIPE) as process:
        theirs.close()
        assert process.stdout
        ours.receive()
        reads = NativeReads(ours.descriptors.popleft(), build_scope((str(tmp_path),)), 0)
        first = reads.receive()
        process.send_signal(signal.SIGUSR1)
        assert process.stdout.read(11) == b"interrupted"
        with pytest.raises(FileNotFoundError):
            reads.reply(first)
        assert reads.recorder.reads == {}
        second = reads.receive()  # Python asks again
        assert second.arguments == first.arguments
        reads.reply(second)
        assert list(reads.recorder.reads) == [str(data)]
        assert process.wait(60) == 0
    reads.close()
    ours.close()


PROTECTED = """
import ctypes
def f(context, *, seen, unseen):
    ctypes.CDLL(None).prctl(4, 0)  # PR_SET_DUMPABLE: as programs that keep keys do
    ctypes.CDLL(None).fopen(unseen.encode(), b"r")
    open(seen).close()
"""
UNPRIVILEGED = """
import ctypes, json, sys
from orun.core.serialization import decode
from orun.executors import Job, LocalExecutor
ctypes.CDLL(None).prctl(24, 19)  # PR_CAPBSET_DROP: root may read any memory by CAP_SYS_PTRACE, until the next program
with LocalExecutor() as executor:
    executor.start(decode(Job, json.load(sys.stdin)))
    while not (events := executor.wait()):
        pass
    print(json.dumps([sorted(events[0].result.reads), events[0].result.untraced]))
"""


@pytest.mark.slow
@pytest.mark.usefixtures("native_reads")
def test_a_process_whose_memory_may_not_be_read_is_said_to_be_seen_in_part(project: Project) -> None:
    seen, unseen = project.write("seen.txt", ""), project.write("unseen.txt", "")
    project.write("pipelines/mine.py", PROTECTED)
    job = project.job("mine.py:f", params={"seen": str(seen), "unseen": str(unseen)})
    text = json.dumps(encode(job))
    process = subprocess.run(
        [sys.executable, "-c", UNPRIVILEGED], input=text, capture_output=True, text=True, check=False
    )
    assert (process.stderr, json.loads(process.stdout)) == (
        "",
        [
            [f"{project.root}/mine.py", str(seen)],
            "a process may not read the memory of another one (Yama's ptrace_scope, or a program that protects itself)",
        ],
    )


OPENAT2 = """
import ctypes
import os
import struct

def f(context, *, folder, writes):
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for name, flags in (("data.txt", os.O_RDONLY), (writes, os.O_WRONLY | os.O_CREAT)):
        how = struct.pack("QQQ", flags, 0o600 if flags & os.O_CREAT else 0, 0)
        descriptor = ctypes.CDLL(None).syscall(437, at, name.encode(), how, len(how))
        if descriptor >= 0:
            os.close(descriptor)
    return {"opened": descriptor >= 0}
"""


@pytest.mark.usefixtures("native_reads")
def test_a_newer_call_that_opens_a_file_in_a_folder(executor: LocalExecutor, project: Project) -> None:
    data = project.write("pipelines/data.txt", "0,1")
    project.write("pipelines/mine.py", OPENAT2)
    job = project.job("mine.py:f", params={"folder": str(project.root), "writes": "new.txt"})
    job_result = result(executor, job)
    if not job_result.metrics["opened"].value:
        pytest.skip("the kernel has no openat2")
    assert [path for path, seen in job_result.reads.items() if seen] == [str(data), f"{project.root}/mine.py"]
    assert f"{project.root}/new.txt" not in job_result.reads


CREATES = """
import ctypes
import os

def f(context, *, name):
    libc = ctypes.CDLL(None)
    os.close(libc.creat(name.encode(), 0o600))
    libc.fopen(name.encode(), b"r")
"""


@pytest.mark.usefixtures("native_reads")
def test_the_oldest_call_that_makes_a_file(executor: LocalExecutor, project: Project) -> None:
    """What native code made by it was taken for an input, and another stage might read what some other run had left."""
    project.write("pipelines/mine.py", CREATES)
    path = project.root / "made.txt"
    job_result = result(executor, project.job("mine.py:f", params={"name": str(path)}))
    assert str(path) not in job_result.reads
    assert job_result.undeclared_writes == {str(path): "written"}


@pytest.mark.usefixtures("native_reads")
def test_many_threads_that_open_files_while_signals_arrive(executor: LocalExecutor, project: Project) -> None:
    project.write(
        "pipelines/mine.py",
        """
import ctypes, signal, threading
def f(context, *, folder):
    libc = ctypes.CDLL(None, use_errno=True)
    def work(first):
        for number in range(first, first + 250):
            file = libc.open(f"{folder}/{number % 100}".encode(), 0)
            assert file >= 0, ctypes.get_errno()
            libc.close(file)
    ticks = []
    signal.signal(signal.SIGALRM, lambda *_: ticks.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    threads = [threading.Thread(target=work, args=(250 * number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    signal.setitimer(signal.ITIMER_REAL, 0)
    return {"ticks": len(ticks)}
""",
    )
    folder = project.work / "many"
    folder.mkdir(parents=True)
    files = [project.write(f"many/{number}", "") for number in range(100)]
    job_result = result(executor, project.job("mine.py:f", params={"folder": str(project.folder / "many")}))
    assert {str(file) for file in files} < job_result.reads.keys()
    assert job_result.metrics["ticks"].value > 0


def test_a_stage_that_opens_files_without_end_does_not_keep_others_waiting(
    executor: LocalExecutor, project: Project
) -> None:
    project.write(
        "pipelines/mine.py",
        """
def endless(context):
    while True:
        open(__file__).close()
def quick(context):
    pass
""",
    )
    executor.start(project.job("mine.py:endless"))
    result(executor, project.job("mine.py:quick"))
    executor.cancel("endless")
    assert str(outcomes(executor, 1)["endless"]) == "endless was stopped\n  the run was interrupted"


@pytest.mark.slow
def test_paths_that_are_no_text(executor: LocalExecutor, project: Project) -> None:
    project.write(
        "pipelines/mine.py", "import os\ndef f(context, *, folder): open(os.fsencode(folder) + b'/\\xff').close()\n"
    )
    odd = Path(str(project.root) + "/\udcff")
    odd.write_text("")
    job_result = result(executor, project.job("mine.py:f", params={"folder": str(project.root)}))
    assert str(odd) in job_result.reads
