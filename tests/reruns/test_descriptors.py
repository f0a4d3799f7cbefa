"""Files that a stage opens by a name of its own process's, such as `/proc/self/fd/3`: they are the files behind it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from tests.project import Project, built
from tests.reruns.expression_stages import make_expression_stages, texts, why

CODE = """
import ctypes
import os
import subprocess
import tempfile

from orun import stage


def opened(path):
    return os.open(path, os.O_RDONLY)


def native(path):
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    file, text = ctypes.c_void_p(libc.fopen(path.encode(), b"r")), ctypes.create_string_buffer(100)
    size = libc.fread(text, 1, 100, file)
    libc.fclose(file)
    return text.raw[:size].decode()


def by_cat(path, *descriptors):
    return subprocess.check_output(["cat", path], text=True, pass_fds=descriptors)


def piped():
    end, other = os.pipe()
    os.write(other, b"one")
    os.close(other)
    return open(f"/dev/fd/{end}").read()


def unnamed():
    file = tempfile.TemporaryFile("w+")
    file.write("one")
    file.flush()
    return open(f"/proc/self/fd/{file.fileno()}").read()


def removed(path):
    file = open(path, "w+")
    file.write("one")
    file.flush()
    os.remove(path)
    return open(f"/proc/self/fd/{file.fileno()}").read()


@stage(inputs={}, output="files")
def tell(context):
    file = context.root / "data" / "one.txt"
    folder = os.open(file.parent, os.O_RDONLY)
    (context.output / "text").write_text(str(ASK))
"""
BY_PYTHON = {
    "own": "open(f'/proc/self/fd/{opened(file)}').read()",
    "thread": "open(f'/proc/thread-self/fd/{opened(file)}').read()",
    "process": "open(f'/proc/{os.getpid()}/fd/{opened(file)}').read()",
    "device": "open(f'/dev/fd/{opened(file)}').read()",
    "stdin": "os.dup2(opened(file), 0) or open('/dev/stdin').read()",
    "in_folder": "open(f'/proc/self/fd/{folder}/one.txt').read()",
    "cwd": "os.chdir(file.parent) or open('/proc/self/cwd/one.txt').read()",
    "root": "open(f'/proc/self/root{file}').read()",
    "size": "os.stat(f'/proc/self/fd/{opened(file)}').st_size and 'one'",
    "link": "os.readlink(f'/proc/self/fd/{opened(file)}') and 'one'",
}
NATIVE = {
    "own": "native(f'/proc/self/fd/{opened(file)}')",
    "thread": "native(f'/proc/thread-self/fd/{opened(file)}')",
    "device": "native(f'/dev/fd/{opened(file)}')",
    "in_folder": "native(f'/proc/self/fd/{folder}/one.txt')",
    "program": "by_cat(f'/dev/fd/{folder}/one.txt', folder)",
    "inherited": "(lambda file: by_cat(f'/dev/fd/{file}', file))(opened(file))",
}
PASSING = {
    "pipe": "piped()",
    "deleted": "removed(context.root / 'gone.txt')",
    "temporary": "unnamed()",
    "memory": "(lambda file: os.write(file, b'one') and open(f'/proc/self/fd/{file}').read())(os.memfd_create('some'))",
    "native": "(lambda file: os.write(file, b'one') and native(f'/proc/self/fd/{file}'))(os.memfd_create('some'))",
    "there": "os.path.exists('/dev/stdin') and os.path.exists('/proc/self/fd/1') and 'one'",
    "descriptors": "len(os.listdir('/proc/self/fd')) and len(os.listdir('/dev/fd')) and 'one'",
}


def make(folder: Path, asks: Mapping[str, str]) -> Project:
    project = make_expression_stages(folder, {name: CODE.replace("ASK", ask) for name, ask in asks.items()})
    (project.folder / "data").mkdir()
    project.write("data/one.txt", "one")
    return project


def check(project: Project, asks: Collection[str]) -> None:
    """Each stage reads the file, by whatever name, and no name is an input that changes with the process."""
    assert built(project.run()) == [*asks]
    assert texts(project, asks) == dict.fromkeys(asks, "one")
    assert built(project.run()) == []
    project.write("data/one.txt", "two, and longer")
    assert why(project.run()) == dict.fromkeys(asks, ("data/one.txt changed (read by the stage)",))
    assert built(project.run()) == []


def test_it_is_the_file_behind_the_name(tmp_path: Path) -> None:
    """Outside the process the name is another file's: the stage had failed, as if its input had been edited."""
    check(make(tmp_path, BY_PYTHON), BY_PYTHON)


@pytest.mark.slow
@pytest.mark.usefixtures("native_reads")
def test_it_is_so_to_native_code_and_programs(tmp_path: Path) -> None:
    check(make(tmp_path, NATIVE), NATIVE)


def test_a_folder_that_is_listed_by_such_a_name(tmp_path: Path) -> None:
    project = make(tmp_path, {"lists": "os.listdir(f'/proc/self/fd/{folder}')"})
    assert built(project.run()) == ["lists"]
    assert built(project.run()) == []
    project.write("data/one.txt", "two, and longer")
    assert built(project.run()) == []
    (project.folder / "data" / "one.txt").rename(project.folder / "data" / "two.txt")
    assert why(project.run()) == {"lists": ("folder data has other files now (listed by the stage)",)}
    assert project.text("lists") == "['two.txt']"


def test_what_only_the_process_has_is_no_input(tmp_path: Path) -> None:
    project = make(tmp_path, PASSING)
    assert built(project.run()) == [*PASSING]
    assert texts(project, PASSING) == dict.fromkeys(PASSING, "one")
    assert built(project.run()) == []


def test_what_is_written_by_such_a_name_is_the_file_behind_it(tmp_path: Path) -> None:
    write = "(lambda file: open(f'/proc/self/fd/{file}', 'w').write('x'))(os.open(context.root / 'left.txt', 66))"
    project = make(tmp_path, {"writes": write})
    assert project.run()["writes"].wrote == ("left.txt",)
    assert built(project.run()) == []
