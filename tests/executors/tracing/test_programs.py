"""Programs that a stage starts: the kernel opens them by itself, so that no call of the stage's tells of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from orun.executors import LocalExecutor
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

def f(context, *, how, program):
    globals()[how](program)
"""
BY_PYTHON = ("absolute", "relative", "on_the_path", "spawned")  # as far as the process of the stage starts it


def program_of(project: Project) -> Path:
    """A native program in the project."""
    found = shutil.which("true")
    assert found
    program = project.folder / "tools" / "true"
    program.parent.mkdir()
    shutil.copy(found, program)
    return program


def of_tools(project: Project, reads: Iterable[str]) -> list[str]:
    """What was read where the program is."""
    return [path for path in reads if path.startswith(f"{project.folder}/tools/")]


def in_vain(program: Path, how: str) -> list[str]:
    return [f"{program.parent}/none/{program.name}"] if how == "on_the_path" else []


@pytest.mark.usefixtures("native_reads")
@pytest.mark.parametrize("how", [*BY_PYTHON, "replaced", "by_a_shell", "open_already"])
def test_a_program_that_is_started_is_an_input(executor: LocalExecutor, project: Project, how: str) -> None:
    program = program_of(project)
    project.write("pipelines/mine.py", STARTS)
    found = result(executor, project.job("mine.py:f", params={"how": how, "program": str(program)}))
    seen = of_tools(project, found.reads)
    assert seen == [*in_vain(program, how), str(program)]
    assert [path for path in seen if found.reads[path] is None] == in_vain(program, how)


@pytest.mark.parametrize("how", BY_PYTHON)
def test_where_the_kernel_does_not_tell_python_does(project: Project, how: str) -> None:
    program = program_of(project)
    project.write("pipelines/mine.py", STARTS)
    job = project.job("mine.py:f", params={"how": how, "program": str(program)})
    assert of_tools(project, read_where_it_is_refused(job)) == [*in_vain(program, how), str(program)]


@pytest.mark.usefixtures("native_reads")
def test_what_the_first_line_of_a_script_names(executor: LocalExecutor, project: Project) -> None:
    program = program_of(project)
    script = project.write("tools/script", f"#!{program} -x\n")
    script.chmod(0o755)
    project.write("pipelines/mine.py", STARTS)
    found = result(executor, project.job("mine.py:f", params={"how": "absolute", "program": str(script)}))
    assert of_tools(project, found.reads) == [str(script), str(program)]
