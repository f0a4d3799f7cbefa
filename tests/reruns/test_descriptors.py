"""Files that a stage opens by a name of its own process's, such as `/proc/self/fd/3`: they are the files behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.facts import sentences
from tests.project import Project, built

PIPELINE = """
name: text
stages:
  tell: {uses: ./tell.py:tell}
"""
CODE = """
import ctypes
import os
import subprocess
import tempfile

from orun import stage


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
    data = os.open(context.root / "data.txt", os.O_RDONLY)
    folder = os.open(context.root, os.O_RDONLY)
    (context.output / "text").write_text(str(ASK))
"""
SEEN = {
    "self": "open(f'/proc/self/fd/{data}').read()",
    "thread": "open(f'/proc/thread-self/fd/{data}').read()",
    "process": "open(f'/proc/{os.getpid()}/fd/{data}').read()",
    "device": "open(f'/dev/fd/{data}').read()",
    "stdin": "os.dup2(data, 0) or open('/dev/stdin').read()",
    "folder": "open(f'/proc/self/fd/{folder}/data.txt').read()",
    "cwd": "os.chdir(context.root) or open('/proc/self/cwd/data.txt').read()",
    "root": "open(f'/proc/self/root{context.root}/data.txt').read()",
    "size": "os.stat(f'/proc/self/fd/{data}').st_size and 'one'",
    "link": "os.readlink(f'/proc/self/fd/{data}') and 'one'",
    "native": "native(f'/proc/self/fd/{data}')",
    "native thread": "native(f'/proc/thread-self/fd/{data}')",
    "native device": "native(f'/dev/fd/{data}')",
    "program": "by_cat(f'/dev/fd/{data}', data)",
    "listed": "'data.txt' in os.listdir(f'/proc/self/fd/{folder}') and 'one'",
}
PASSING = {
    "pipe": "piped()",
    "deleted": "removed(context.root / 'gone.txt')",
    "temporary": "unnamed()",
    "memory": "(lambda file: os.write(file, b'one') and open(f'/proc/self/fd/{file}').read())(os.memfd_create('some'))",
    "native memory": "(lambda one: os.write(one, b'one') and native(f'/proc/self/fd/{one}'))(os.memfd_create('some'))",
    "there": "os.path.exists('/dev/stdin') and os.path.exists('/proc/self/fd/1') and 'one'",
    "descriptors": "len(os.listdir('/proc/self/fd')) and len(os.listdir('/dev/fd')) and 'one'",
}


def make(folder: Path, ask: str) -> Project:
    project = Project.make(folder / "project", PIPELINE)
    project.write("tell.py", CODE.replace("ASK", ask))
    project.write("data.txt", "one")
    return project


@pytest.mark.parametrize("how", SEEN)
def test_it_is_the_file_behind_the_name(request: pytest.FixtureRequest, tmp_path: Path, how: str) -> None:
    """Outside the process the name is another file's: the stage had failed, as if its input had been edited."""
    if how.startswith(("native", "program")):
        request.getfixturevalue("native_reads")
    project = make(tmp_path, SEEN[how])
    assert built(project.run()) == ["tell"]
    assert project.text("tell") in ("one", "True")
    assert built(project.run()) == []
    project.write("data.txt", "two, and longer")
    assert sentences(project.run()["tell"].reasons) == ("data.txt changed (read by the stage)",)
    assert built(project.run()) == []


@pytest.mark.parametrize("how", PASSING)
def test_what_only_the_process_has_is_no_input(tmp_path: Path, how: str) -> None:
    project = make(tmp_path, PASSING[how])
    assert built(project.run()) == ["tell"]
    assert project.text("tell") == "one"
    assert built(project.run()) == []


def test_what_is_written_by_such_a_name_is_the_file_behind_it(tmp_path: Path) -> None:
    write = "(lambda file: open(f'/proc/self/fd/{file}', 'w').write('x'))(os.open(context.root / 'left.txt', 66))"
    project = make(tmp_path, write)
    assert list(project.run()["tell"].wrote) == ["left.txt"]
    assert built(project.run()) == []
