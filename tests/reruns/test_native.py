"""Questions of native code and programs about files they do not open: may it be read, where does a link lead."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.project import built
from tests.reruns.expression_stages import make_expression_stages, texts, why

pytestmark = pytest.mark.usefixtures("native_reads")
CODE = """
import ctypes
import multiprocessing
import os
import subprocess
import sys

from orun import stage

LIBC = ctypes.CDLL(None)
LIBC.realpath.restype = ctypes.c_void_p


def access(path):
    return LIBC.access(str(path).encode(), os.R_OK) == 0


def faccessat(path):
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    return LIBC.faccessat(folder, path.name.encode(), os.R_OK, 0) == 0


def readlink(path):
    found = ctypes.create_string_buffer(4096)
    size = LIBC.readlink(str(path).encode(), found, 4096)
    return found.raw[:size].decode() if size >= 0 else "none"


def realpath(path):
    found = ctypes.create_string_buffer(4096)
    return os.path.basename(found.value.decode()) if LIBC.realpath(str(path).encode(), found) else "none"


def in_worker(ask, path):
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(ask, (path,))


def by_python(path):
    asks = f"import os, sys; sys.stdout.write(str(os.access({str(path)!r}, os.R_OK)))"
    return subprocess.check_output([sys.executable, "-S", "-c", asks], text=True)


def by_readlink(path):
    return subprocess.run(["readlink", path], stdout=subprocess.PIPE, text=True).stdout.strip() or "none"


@stage(inputs={}, output="files")
def tell(context):
    path = context.root / "flag"
    (context.output / "text").write_text(str(ASK))
"""


MAY_BE_READ = {
    "native": "access(path)",
    "in_folder": "faccessat(path)",
    "worker": "in_worker(access, path)",
    "program": "by_python(path)",
}
LEADS_TO = {
    "native": "readlink(path)",
    "resolved": "realpath(path)",
    "worker": "in_worker(readlink, path)",
    "program": "by_readlink(path)",
}
APPEARED = ("flag has appeared (looked for by the stage)",)


def test_whether_a_file_may_be_read(tmp_path: Path) -> None:
    stages = MAY_BE_READ.keys()
    project = make_expression_stages(tmp_path, {name: CODE.replace("ASK", ask) for name, ask in MAY_BE_READ.items()})
    assert built(project.run()) == [*stages]
    assert texts(project, stages) == dict.fromkeys(stages, "False")
    assert built(project.run()) == []
    flag = project.write("flag", "")
    assert why(project.run()) == dict.fromkeys(stages, APPEARED)
    assert texts(project, stages) == dict.fromkeys(stages, "True")
    assert built(project.run()) == []
    flag.unlink()
    assert built(project.run()) == []
    assert texts(project, stages) == dict.fromkeys(stages, "False")


def test_where_a_link_leads(tmp_path: Path) -> None:
    stages = LEADS_TO.keys()
    project = make_expression_stages(tmp_path, {name: CODE.replace("ASK", ask) for name, ask in LEADS_TO.items()})
    for name in ("data", "other"):
        project.write(name, "")
    link = project.folder / "flag"
    assert built(project.run()) == [*stages]
    assert texts(project, stages) == dict.fromkeys(stages, "none")
    assert built(project.run()) == []
    link.symlink_to("data")
    assert why(project.run()) == dict.fromkeys(stages, APPEARED)
    assert texts(project, stages) == dict.fromkeys(stages, "data")
    assert built(project.run()) == []
    link.unlink()
    link.symlink_to("other")
    assert why(project.run()) == dict.fromkeys(stages, ("flag changed (looked for by the stage)",))
    assert texts(project, stages) == dict.fromkeys(stages, "other")
    assert built(project.run()) == []
    link.unlink()
    assert built(project.run()) == []
    assert texts(project, stages) == dict.fromkeys(stages, "none")
