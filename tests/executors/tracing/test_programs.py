"""Programs that a stage starts: the kernel opens them by itself, so that no call of the stage's tells of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from orun.executors import Job, LocalExecutor
from tests.executors.support import Project, result
from tests.executors.tracing.test_native import read_where_it_is_refused

STARTS = """
import os
import subprocess

def wait(process):
    assert os.waitpid(process, 0)[1] == 0

def absolute(program):
    subprocess.run([program], check=True)

def relative(program):
    folder, name = os.path.split(program)
    subprocess.run([f"./{name}"], cwd=folder, check=True)

def on_the_path(program):
    folder, name = os.path.split(program)
    subprocess.run([name], env={"PATH": f"{folder}/none:{folder}"}, check=True)

def spawned(program):
    wait(os.posix_spawn(program, [program], {}))

def replaced(program):
    process = os.fork()
    if not process:
        os.execv(program, [program])
    wait(process)

def by_a_shell(program):
    folder, name = os.path.split(program)
    assert os.system(f"cd '{folder}'; ./{name}") == 0

def open_already(program):
    process = os.fork()
    if not process:
        os.execve(os.open(program, os.O_RDONLY), [program], {})
    wait(process)

def f(context, *, programs):
    for how, program in programs.items():
        globals()[how](program)
"""
BY_PYTHON = ("absolute", "relative", "on_the_path", "spawned")  # as far as the process of the stage starts it


@pytest.fixture
def program(project: Project) -> Path:
    """A native program in the project."""
    tools = shutil.which("true")
    assert tools
    program = project.write("tools/true", "")
    shutil.copy(tools, program)
    project.write("pipelines/mine.py", STARTS)
    return program


def starting(project: Project, program: Path, ways: Iterable[str]) -> tuple[Job, dict[str, Path]]:
    """A job that starts a copy of the program in each of these ways; the copies."""
    copies = {how: program.with_name(how) for how in ways}
    for path in copies.values():
        shutil.copy(program, path)
    return project.job("mine.py:f", params={"programs": {how: str(path) for how, path in copies.items()}}), copies


def in_tools(project: Project, reads: Iterable[str]) -> set[str]:
    """What was read below the folder of the program."""
    return {path for path in reads if path.startswith(f"{project.folder}/tools/")}


@pytest.mark.usefixtures("native_reads")
def test_a_program_that_is_started_is_an_input(executor: LocalExecutor, project: Project, program: Path) -> None:
    job, copies = starting(project, program, [*BY_PYTHON, "replaced", "by_a_shell", "open_already"])
    job_result = result(executor, job)
    in_vain = f"{program.parent}/none/on_the_path"
    assert in_tools(project, job_result.reads) == {*map(str, copies.values()), in_vain}
    assert [
        path for path, seen in job_result.reads.items() if path.startswith(str(program.parent)) and seen is None
    ] == [in_vain]


def test_where_the_kernel_does_not_tell_python_does(project: Project, program: Path) -> None:
    job, copies = starting(project, program, BY_PYTHON)
    tools = in_tools(project, read_where_it_is_refused(job))
    assert tools == {*map(str, copies.values()), f"{program.parent}/none/on_the_path"}


@pytest.mark.usefixtures("native_reads")
def test_what_the_first_line_of_a_script_names(executor: LocalExecutor, project: Project, program: Path) -> None:
    script = project.write("tools/script", f"#!{program} -x\n")
    script.chmod(0o755)
    job_result = result(executor, project.job("mine.py:f", params={"programs": {"absolute": str(script)}}))
    assert in_tools(project, job_result.reads) == {str(script), str(program)}
