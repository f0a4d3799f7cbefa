"""Undeclared reads of real stages: each of them is recorded, and nothing else."""

from __future__ import annotations

import contextlib
import sqlite3
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from orun.executors import JobResult, LocalExecutor
from orun.fs.observed_state import ABSENT, digest_listing
from orun.fs.signatures import Signature, read_signature
from tests.executors.support import Project, result

HEAD = """
import os
from pathlib import Path
def peek(path):
    open(path).close()
"""


def seen(executor: LocalExecutor, project: Project, code: str, **params: str) -> JobResult:
    """The result of a function `f` of one file."""
    arguments = ", *, " + ", ".join(params) if params else ""
    body = "\n".join(f"    {line}" for line in code.splitlines())
    project.write("pipelines/mine.py", f"{HEAD}def f(context{arguments}):\n{body}\n")
    return result(executor, project.job("mine.py:f", params=params))


def other_reads(job_result: JobResult, project: Project, *libraries: str) -> dict[str, Signature | None]:
    """What was read but the file of the function itself, and where these or standard libraries were not found."""
    expected = {f"{project.root}/mine.py", *(path for name in libraries for path in places(project, name))}
    assert expected <= job_result.reads.keys()
    standard = {path for name in sys.stdlib_module_names for path in places(project, name)}
    return {
        path: seen for path, seen in job_result.reads.items() if path not in expected and (seen or path not in standard)
    }


def places(project: Project, name: str) -> set[str]:
    """Where a module of that name would be found in the project."""
    return {f"{project.root}/{name}.py", f"{project.root}/{name}/__init__.py"}


def now(*paths: Path) -> Mapping[str, Signature | None]:
    """The paths with the signatures that they have."""
    return {str(path): read_signature(path) for path in paths}


def test_the_code_itself(executor: LocalExecutor, project: Project) -> None:
    job_result = seen(executor, project, "pass")
    assert job_result.reads == now(project.root / "mine.py")
    assert job_result.listings == {}
    assert job_result.packages == {}
    assert job_result.environment == {}


@pytest.mark.parametrize(
    "how",
    [
        "open(path).close()",
        "open(path, 'rb').close()",
        "Path(path).read_text()",
        "os.close(os.open(path, os.O_RDONLY))",
        "os.close(os.open(path, os.O_RDWR))",
        "open(os.path.relpath(path)).close()",
        "open(os.path.join(os.path.dirname(path), '..', 'pipelines', 'data.txt')).close()",
        "open(path.encode()).close()",
        "import mmap, shutil; shutil.copy(path, 'mine')",
    ],
)
def test_a_file_that_python_opens(executor: LocalExecutor, project: Project, how: str) -> None:
    data = project.write("pipelines/data.txt", "0,1")
    assert other_reads(seen(executor, project, how, path=str(data)), project) == now(data)


def test_a_file_outside_of_the_project(executor: LocalExecutor, project: Project, tmp_path: Path) -> None:
    data = tmp_path / "data.npz"
    np.savez(data, labels=np.arange(3))
    job_result = seen(executor, project, "import numpy\nnumpy.load(path)['labels']", path=str(data))
    assert other_reads(job_result, project, "numpy") == now(data)


@pytest.mark.usefixtures("native_reads")
@pytest.mark.parametrize(
    "how",
    [
        "from safetensors import safe_open\nsafe_open(path, 'np').get_tensor('x')",
        "import ctypes\nctypes.CDLL(None).fopen(path.encode(), b'r')",
        "import subprocess\nsubprocess.run(['cat', path], check=True)",
        "import subprocess\nsubprocess.run(['cat', 'data.safetensors'], check=True, cwd=os.path.dirname(path))",
        "folder = os.open(os.path.dirname(path), os.O_RDONLY)\nos.close(os.open('data.safetensors', 0, dir_fd=folder))",
        "from multiprocessing import get_context\nwith get_context('fork').Pool(1) as it:\n    it.apply(peek, [path])",
    ],
)
def test_a_file_that_is_opened_below_python(executor: LocalExecutor, project: Project, how: str) -> None:
    data = project.root / "data.safetensors"
    save_file({"x": np.ones(3, np.float32)}, data)
    job_result = seen(executor, project, how, path=str(data))
    assert other_reads(job_result, project, *(["safetensors", "numpy"] if "safe_open" in how else [])) == now(data)


@pytest.mark.usefixtures("native_reads")
def test_the_external_data_of_a_model(executor: LocalExecutor, project: Project) -> None:
    import onnx

    from tests.executors.models import affine

    model, data = project.root / "m.onnx", project.root / "m.data"
    onnx.save(affine(1000), model, save_as_external_data=True, location="m.data", size_threshold=0)
    code = "import onnxruntime\nonnxruntime.InferenceSession(path, providers=['CPUExecutionProvider'])"
    assert other_reads(seen(executor, project, code, path=str(model)), project, "onnxruntime") == now(model, data)


def test_a_file_that_is_not_there(executor: LocalExecutor, project: Project) -> None:
    code = """
try:
    open(path)
except FileNotFoundError:
    return {"there": 0}
"""
    missing = project.root / "labels.txt"
    assert other_reads(seen(executor, project, code, path=str(missing)), project) == {str(missing): None}


def test_the_signature_is_that_of_the_first_opening(executor: LocalExecutor, project: Project) -> None:
    data = project.write("pipelines/data.txt", "0,1")
    before = now(data)
    job_result = seen(
        executor, project, "open(path).close()\nopen(path, 'w').write('longer')\nopen(path)", path=str(data)
    )
    assert other_reads(job_result, project) == before
    assert other_reads(job_result, project) != now(data)


@pytest.mark.usefixtures("native_reads")
def test_a_file_that_the_stage_makes_is_its_own(executor: LocalExecutor, project: Project, tmp_path: Path) -> None:
    code = """
import ctypes, subprocess, tempfile
open("scratch", "w").close()
open("scratch").close()
(context.output / "out").write_text("x")
(context.output / "out").read_text()
for name in ("a", "b", "c"):
    file = Path(path) / name
    try:
        file.read_text()
    except FileNotFoundError:
        pass
(Path(path) / "a").write_text("x")
(Path(path) / "t").write_text("x")
(Path(path) / "t").rename(Path(path) / "b")
subprocess.run(["cp", "scratch", Path(path) / "c"], check=True)
for name in ("a", "b", "c"):
    (Path(path) / name).read_text()
with tempfile.NamedTemporaryFile(dir="/tmp") as temporary:
    open(temporary.name).close()
"""
    assert other_reads(seen(executor, project, code, path=str(tmp_path)), project) == {}


@pytest.mark.usefixtures("native_reads")
def test_a_cache_that_a_library_keeps_elsewhere(executor: LocalExecutor, project: Project, tmp_path: Path) -> None:
    kept, unchanged = tmp_path / "index", tmp_path / "labels.sqlite"
    kept.write_text("1")
    with contextlib.closing(sqlite3.connect(unchanged)) as database:
        database.execute("CREATE TABLE labels (label)")
    code = """
import sqlite3
(Path(path) / "index").read_text()
(Path(path) / "index").write_text("22")
assert sqlite3.connect(Path(path) / "labels.sqlite").execute("SELECT * FROM labels").fetchall() == []
"""
    job_result = seen(executor, project, code, path=str(tmp_path))
    assert {path: there for path, there in other_reads(job_result, project).items() if there} == now(unchanged)


def test_a_file_of_the_project_that_the_stage_changes_is_an_input_still(
    executor: LocalExecutor, project: Project
) -> None:
    data = project.write("pipelines/count", "1")
    before = now(data)
    code = "Path(path).read_text()\nPath(path).write_text('22')"
    assert other_reads(seen(executor, project, code, path=str(data)), project) == before


def test_caches_beside_code_are_none_of_it(executor: LocalExecutor, project: Project) -> None:
    cache = project.write("pipelines/__pycache__/mine.kernel.nbi", "1")
    assert other_reads(seen(executor, project, "open(path).close()", path=str(cache)), project) == {}


def test_what_is_not_the_user_s(executor: LocalExecutor, project: Project) -> None:
    code = """
import sys, json.tool, zoneinfo, ctypes.util, onnx, orun.text.units
open("/proc/self/status").close()
open("/etc/hostname").close()
open("/dev/null").close()
open(onnx.__file__).close()
open(os.path.join(sys.prefix, "pyvenv.cfg")).close()
open(orun.text.units.__file__).close()
try:
    open(os.path.expanduser("~/.netrc"))
except OSError:
    pass
os.listdir("/usr")
os.listdir(os.path.dirname(onnx.__file__))
os.listdir(".")
"""
    job_result = seen(executor, project, code)
    assert other_reads(job_result, project, "onnx") == {}
    assert job_result.listings == {}


@pytest.mark.parametrize(
    "how",
    [
        "os.listdir(path)",
        "list(os.scandir(path))",
        "list(Path(path).iterdir())",
        "list(Path(path).glob('*.txt'))",
        "import glob\nglob.glob(path + '/*')",
        "list(os.walk(path))",
        "os.chdir(path)\nos.listdir()",
        "os.makedirs(path, exist_ok=True)\nos.listdir(path)",
        "Path(path).mkdir(exist_ok=True)\nlist(Path(path).iterdir())",
        "os.listdir(os.open(path, os.O_RDONLY))",
        "import pkgutil\nlist(pkgutil.iter_modules([path]))",
    ],
)
def test_a_folder_that_is_listed(executor: LocalExecutor, project: Project, how: str) -> None:
    folder = project.write("pipelines/texts/a.txt", "a").parent
    job_result = seen(executor, project, how, path=str(folder))
    assert job_result.listings == {str(folder): digest_listing(folder)}


def test_the_pipeline_s_own_folder_listed_by_its_code_alone(executor: LocalExecutor, project: Project) -> None:
    project.write("pipelines/helper.py", "")
    code = """
import helper, importlib.metadata, pkgutil
list(importlib.metadata.distributions())
list(pkgutil.iter_modules())
"""
    assert seen(executor, project, code).listings == {}
    job_result = seen(executor, project, "list(Path(__file__).parent.glob('*.npz'))")
    assert job_result.listings == {str(project.root): digest_listing(project.root)}


def test_a_folder_that_is_not_there(executor: LocalExecutor, project: Project) -> None:
    code = "try:\n    os.listdir(path)\nexcept FileNotFoundError:\n    pass"
    job_result = seen(executor, project, code, path=str(project.root / "texts"))
    assert job_result.listings == {str(project.root / "texts"): ABSENT}
    assert other_reads(job_result, project) == {}


def test_a_folder_that_the_stage_makes_is_its_own(executor: LocalExecutor, project: Project, tmp_path: Path) -> None:
    code = "import tempfile\nwith tempfile.TemporaryDirectory(dir=path) as made:\n    Path(made, 'a').touch()"
    assert seen(executor, project, code, path=str(tmp_path)).listings == {}
    code = "os.mkdir(path)\nos.listdir(path)"
    assert seen(executor, project, code, path=str(tmp_path / "a")).listings == {}


def test_the_cache_of_python_does_not_count_in_a_folder(executor: LocalExecutor, project: Project) -> None:
    folder = project.write("pipelines/texts/a.py", "").parent
    job_result = seen(executor, project, "os.listdir(path)", path=str(folder))
    (folder / "__pycache__").mkdir()
    assert job_result.listings == {str(folder): digest_listing(folder)}
    (folder / "b.py").touch()
    assert job_result.listings != {str(folder): digest_listing(folder)}
