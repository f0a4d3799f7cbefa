"""Files that a stage asks for without opening them: each of them is recorded, and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from orun.executors import LocalExecutor
from orun.fs.observed_state import digest_listing
from tests.executors.support import Project, result

LISTS = sys.version_info[:2] == (3, 12)  # there `Path.glob` goes by a folder's list also where there is no wildcard
HEAD = "import contextlib, os\nfrom pathlib import Path\n"


def probes(executor: LocalExecutor, project: Project, code: str, path: Path) -> Mapping[str, str]:
    """What a function asked for, by the path below the project; `path` is in `path`."""
    body = "\n".join(f"    {line}" for line in code.splitlines())
    project.write("pipelines/mine.py", f"{HEAD}def f(context, *, path):\n{body}\n")
    job_result = result(executor, project.job("mine.py:f", params={"path": str(path)}))
    return {name.removeprefix(f"{project.folder}/"): answer for name, answer in job_result.probed.items()}


@pytest.mark.parametrize(
    "how",
    [
        "os.path.exists(path)",
        "os.path.isfile(path)",
        "os.path.isdir(path)",
        "os.path.lexists(path)",
        "Path(path).resolve()",
        "os.path.realpath(filename=path)",
        "with contextlib.suppress(OSError):\n    Path(path).resolve(strict=True)",
        "os.access(path, os.R_OK)",
        "Path(path).exists()",
        "Path(path).is_file()",
        "Path(path).is_dir()",
        "os.path.exists(os.fsencode(path))",
        "import glob\nglob.glob(path)",
        "import shutil\nshutil.which(path)",
        "os.chdir(os.path.dirname(path))\nos.path.exists(os.path.basename(path))",
    ],
)
def test_whether_a_file_is_there(executor: LocalExecutor, project: Project, how: str) -> None:
    path = project.root / "flag"
    assert probes(executor, project, how, path) == {"pipelines/flag": ""}
    path.touch()
    assert probes(executor, project, how, path) == {"pipelines/flag": "file"}


def test_whether_a_pattern_without_wildcards_finds_a_file(executor: LocalExecutor, project: Project) -> None:
    """By looking for it, or, in Python 3.12, in the list of what is there."""
    path = project.root / "flag"
    project.write("pipelines/mine.py", "def f(context):\n    list(context.root.glob('flag'))")
    for match in ("", "file"):
        seen = result(executor, project.job("mine.py:f"))
        if LISTS:
            assert seen.listings == {str(project.root): digest_listing(project.root)}
        else:
            assert seen.probed[str(path)] == match
        path.touch()


@pytest.mark.parametrize(
    "how", ["os.stat(path)", "os.path.getsize(path)", "Path(path).stat()", "os.path.exists(path)\nos.stat(path)"]
)
def test_the_size_of_a_file(executor: LocalExecutor, project: Project, how: str) -> None:
    path = project.root / "weights"
    code = f"with contextlib.suppress(OSError):\n    {how}".replace("\nos", "\n    os")
    assert probes(executor, project, code, path) == {"pipelines/weights": ""}
    path.write_text("12345")
    assert probes(executor, project, code, path) == {"pipelines/weights": "file of 5 bytes"}
    path.unlink()
    path.mkdir()
    assert probes(executor, project, code, path) == {"pipelines/weights": "folder"}


@pytest.mark.parametrize(
    ("how", "answers"),
    [
        ("os.readlink(path)", "link to v1: folder"),
        ("Path(path).resolve()", "link to v1: folder"),
        ("(Path(path) / 'weights').resolve(strict=True)", "link to v1: folder"),
        ("os.path.islink(path)", "a link: folder"),
        ("Path(path).is_symlink()", "a link: folder"),
        ("Path(path).lstat()", "a link: folder"),
        ("os.lstat(path)", "a link: folder"),
        ("os.stat(path, follow_symlinks=False)", "a link: folder"),
        ("Path(path).is_dir()", "folder"),
    ],
)
def test_a_link(executor: LocalExecutor, project: Project, how: str, answers: str) -> None:
    (project.root / "v1").mkdir()
    project.write("pipelines/v1/weights", "12345")
    path = project.root / "latest"
    path.symlink_to("v1")
    assert probes(executor, project, how, path)["pipelines/latest"] == answers
    assert probes(executor, project, "os.path.islink(path)", project.root / "v1") == {"pipelines/v1": "no link: folder"}


def test_a_link_that_is_opened(executor: LocalExecutor, project: Project) -> None:
    project.write("pipelines/v1.bin", "12345")
    path = project.root / "model.bin"
    path.symlink_to("v1.bin")
    code = "open(path).close()\nos.readlink(path)\nos.stat(path)"
    assert probes(executor, project, code, path) == {"pipelines/model.bin": "link to v1.bin: file"}


def test_links_that_lead_to_the_project_or_that_a_library_follows_are_nobody_s(
    executor: LocalExecutor, project: Project, tmp_path: Path
) -> None:
    (tmp_path / "current").symlink_to(project.folder)
    (project.root / "data").symlink_to(tmp_path)
    moved = Project(tmp_path / "current", project.work)
    code = "import mimetypes\nPath(__file__).resolve()\nmimetypes.init([path + '/data/types'])"
    answers = set(probes(executor, moved, code, moved.root).values())
    assert answers in ({"file", ""}, {""})  # until Python 3.12 `resolve` asks for what it has found, too


def test_a_folder(executor: LocalExecutor, project: Project) -> None:
    texts = project.root / "texts"
    assert probes(executor, project, "Path(path).is_dir()", texts) == {"pipelines/texts": ""}
    code = "def f(context):\n    list(context.root.glob('texts/*.txt'))"
    project.write("pipelines/mine.py", code)
    job_result = result(executor, project.job("mine.py:f"))
    seen = {**job_result.probed, **job_result.listings}  # most versions of Python look for it or list it at once
    if LISTS:
        assert job_result.listings == {str(project.root): digest_listing(project.root)}
    else:
        assert seen[str(texts)] == ""
    texts.mkdir()
    assert probes(executor, project, "Path(path).is_dir()", texts) == {"pipelines/texts": "folder"}


def test_outside_of_the_project(executor: LocalExecutor, project: Project, tmp_path: Path) -> None:
    path = tmp_path / "labels"
    assert probes(executor, project, "os.path.exists(path)", path) == {str(path): ""}


def test_what_a_library_looks_for_in_the_project_counts_elsewhere_it_does_not(
    executor: LocalExecutor, project: Project, tmp_path: Path
) -> None:
    code = "import mimetypes\nmimetypes.init([path])"
    assert probes(executor, project, code, project.root / "types") == {"pipelines/types": ""}
    assert probes(executor, project, code, tmp_path / "types") == {}


@pytest.mark.parametrize(
    "how",
    [
        "open(path, 'w').close()",
        "os.mkdir(path)",
        "os.symlink('nowhere', path)",
        "open(path + '.new', 'w').close()\nos.replace(path + '.new', path)",
        "import subprocess\nsubprocess.run(['touch', path], check=True)",
    ],
)
def test_what_the_stage_makes_itself_is_its_own(
    request: pytest.FixtureRequest, executor: LocalExecutor, project: Project, how: str
) -> None:
    if "subprocess" in how:
        request.getfixturevalue("native_reads")
    assert probes(executor, project, f"if not os.path.exists(path):\n    {how}", project.root / "cache") == {}


def test_what_is_opened_is_known_by_its_content(executor: LocalExecutor, project: Project) -> None:
    path = project.write("pipelines/data.txt", "0,1")
    assert probes(executor, project, "if os.path.exists(path):\n    open(path).close()", path) == {}


def test_what_is_nobody_s(executor: LocalExecutor, project: Project) -> None:
    code = """
import tempfile, shutil
Path(path).resolve()
os.path.realpath(path)
os.path.exists("/etc/hostname")
os.path.exists("scratch")
(context.output / "sub" / "deep").mkdir(parents=True)
shutil.copytree(context.output, "copy")
shutil.rmtree("copy")
with tempfile.TemporaryDirectory() as folder:
    os.path.exists(folder)
with contextlib.suppress(TypeError):
    os.path.exists(object())
os.path.exists("\\0")
os.fstat(0), os.stat(0)
"""
    assert probes(executor, project, code, project.root) == {"pipelines": "folder"}, "by Path.resolve()"
