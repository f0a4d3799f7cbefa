"""Systems other than Linux: every module is imported, and the verbs that only read work, without what Windows lacks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orun.core.events import Notice
from tests.project import STAGES, Project

# Libraries are imported first, on the system as it is: what they do about Windows is their own. Frameworks are stubs,
# which saves most of the time. Then what Windows lacks is taken away, from orun's modules alone where it is a module.
WITHOUT_POSIX = """
import builtins, contextlib, importlib.abc, importlib.machinery, io, json, mmap, os, pkgutil, signal, sys, types
import asyncio, concurrent.futures, ctypes, multiprocessing.connection, shutil, socket, subprocess, tempfile, uuid
import click, jinja2, jsonschema, msgspec, networkx, numpy, onnx, onnxruntime, rich.console, yaml
from unittest.mock import MagicMock

FRAMEWORKS = {"keras", "mcp", "psutil", "ray", "skl2onnx", "sklearn", "tensorflow", "torch"}


class Stub(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock()


class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] in FRAMEWORKS else None

    def create_module(self, spec):
        return Stub(spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, Stubs())

MODULES = {"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"}
FUNCTIONS = {
    os: (
        "fork forkpty getuid geteuid getgid getegid getpgid getpgrp getsid setsid setpgid killpg waitid wait"
        " wait3 wait4 P_ALL P_PID P_PIDFD WNOWAIT WEXITED WNOHANG WIFEXITED WIFSIGNALED O_CLOEXEC O_NOFOLLOW"
        " O_DIRECTORY O_NONBLOCK O_NOCTTY O_ACCMODE O_PATH O_TMPFILE sched_getaffinity sched_setaffinity"
        " register_at_fork uname statvfs mkfifo mknod getxattr setxattr listxattr posix_fadvise"
        " posix_fallocate posix_spawn pread pwrite readv writev preadv pwritev sendfile copy_file_range memfd_create"
        " pidfd_open chown lchown fchown pipe2 getpriority setpriority nice getloadavg sysconf confstr sync"
        " fdatasync fchdir"
    ),
    mmap: "MAP_PRIVATE MAP_ANONYMOUS",
    signal: (
        "SIGKILL SIGHUP SIGQUIT SIGSTOP SIGTSTP SIGCONT SIGCHLD SIGPIPE SIGURG SIGALRM SIGUSR1 SIGUSR2 SIGXCPU SIGWINCH"
        " pthread_sigmask pthread_kill sigwait sigwaitinfo sigtimedwait sigpending setitimer getitimer alarm"
    ),
}
real_import = builtins.__import__


def import_of_windows(name, namespace=None, *rest, **keywords):
    if name in MODULES and (namespace or {}).get("__name__", "").startswith("orun"):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return real_import(name, namespace, *rest, **keywords)


builtins.__import__ = import_of_windows
for module, names in FUNCTIONS.items():
    for name in filter(lambda name: hasattr(module, name), names.split()):
        delattr(module, name)

import orun

NOT_INSTALLED = ("ray",)  # of an extra that the tests may lack
COPIED = "orun.stages.release._server."  # programs that run in a server's container, with packages of their own
failed = []
for module in pkgutil.walk_packages(orun.__path__, "orun."):
    if not module.name.endswith("__main__") and not module.name.startswith(COPIED):
        try:
            importlib.import_module(module.name)
        except Exception as error:
            if getattr(error, "name", "") not in NOT_INSTALLED:
                failed.append(f"{module.name}: {error!r}")
sys.platform = "win32"
from orun.cli.main import main

results = {}
for words in json.loads(sys.argv[1]):
    out, errors = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO())
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = main(words.split())
    texts = []
    for stream in (out, errors):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())
    results[words] = [code, *texts]
try:
    orun.run("pipeline.yaml")
except orun.UsageError as error:
    results["orun.run"] = [error.exit_code, "", str(error)]
print(json.dumps({"failed": failed, "results": results}))
"""
REFUSAL = """\
{} does not work on Windows
  it needs the locks, signals and processes of Linux or macOS; `validate`, `plan`, `explain`, `graph`, `stages` and \
`schema` work here
  hint: run it in the Windows Subsystem for Linux (WSL): wsl --install"""
WORK = (
    "--help",
    "run --help",
    "validate pipeline.yaml",
    "plan pipeline.yaml",
    "explain pipeline.yaml make",
    "graph pipeline.yaml",
    "stages",
    "stages quantize/static",
    "schema",
)
REFUSED = ("pipeline.yaml", "run pipeline.yaml", "doctor", "store gc")
PROGRAMS = {"pipeline.yaml": "run"}


@pytest.fixture(scope="module")
def on_windows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Modules that could not be imported, and what command lines came to, in a process without fcntl and the like."""
    project = Project.make(tmp_path_factory.mktemp("test") / "project")
    project.write("stages.py", f"{STAGES}# {'a file of several reads ' * 100_000}")
    process = subprocess.run(
        [sys.executable, "-c", WITHOUT_POSIX, json.dumps([*WORK, *REFUSED])],
        capture_output=True, text=True, check=True, timeout=300, cwd=project.folder,
    )  # fmt: skip
    document: dict[str, Any] = json.loads(process.stdout)
    return document


def test_every_module_is_imported_without_the_modules_of_posix(on_windows: dict[str, Any]) -> None:
    assert on_windows["failed"] == []


@pytest.mark.parametrize("arguments", WORK)
def test_verbs_that_only_read_work_without_posix(on_windows: dict[str, Any], arguments: str) -> None:
    code, out, errors = on_windows["results"][arguments]
    assert (code, errors) == (0, "")
    assert out


@pytest.mark.parametrize("arguments", [*REFUSED, "orun.run"])
def test_what_runs_or_writes_says_what_to_use_on_windows(on_windows: dict[str, Any], arguments: str) -> None:
    command = f"`orun {PROGRAMS.get(arguments, arguments.removesuffix(' pipeline.yaml'))}`"
    expected = REFUSAL.format("orun.run" if arguments == "orun.run" else f"error: {command}")
    assert on_windows["results"][arguments][0] == 2
    assert on_windows["results"][arguments][2].strip() == expected


def test_a_memory_limit_that_this_system_does_not_hold_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project.make(tmp_path / "project")
    project.write("pipeline.yaml", "stages: {make: {uses: ./stages.py:make, resources: {memory: 1GB}}}\n")
    for module in ("orun.runner.run_session", "orun.environment.platforms"):
        monkeypatch.setattr(f"{module}.sys", SimpleNamespace(platform="darwin"))
    project.run()
    limited_nowhere = "make: its `resources.memory` limits nothing on macOS; only Linux stops a stage that takes more"
    assert Notice("warning", limited_nowhere) in project.events
