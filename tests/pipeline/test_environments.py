"""Isolated environments in a pipeline file: what they hold and who runs in them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orun.core.targets import Environment
from orun.pipeline.requirements import Requirements

from .support import EXPORT, complaint, loaded

TEXT = f"""
environments:
  vino: {{packages: [onnxruntime-openvino==1.24.1, "onnx[reference]==1.23.2"]}}
  locked: {{requirements: lock.txt}}
targets:
  ov: {{providers: [OpenVINOExecutionProvider], environment: vino}}
stages:
{EXPORT}  own: {{uses: optimize/simplify, needs: export, environment: locked}}
  target: {{uses: optimize/graph, needs: export, with: {{target: ov}}}}
"""
LOCK = """
# made by a tool
--index-url https://example.org/simple   # where from
numpy==2.4.6 \\
    --hash=sha256:00 \\
    --hash=sha256:11
-r more/others.txt
-c limits.txt
"""


def write(folder: Path) -> None:
    (folder / "more").mkdir(parents=True)
    (folder / "lock.txt").write_text(LOCK, "utf-8")
    (folder / "more" / "others.txt").write_text("onnx==1.23.2\n--constraint=least.txt", "utf-8")
    (folder / "more" / "least.txt").write_text("protobuf>6", "utf-8")
    (folder / "limits.txt").write_text("sympy<2", "utf-8")


def test_a_stage_runs_in_its_own_environment_or_that_of_its_target(tmp_path: Path) -> None:
    write(tmp_path)
    pipeline = loaded(tmp_path, TEXT)
    vino = Environment("vino", ("onnxruntime-openvino==1.24.1", "onnx[reference]==1.23.2"))
    lines = (
        "--index-url https://example.org/simple",
        "numpy==2.4.6 --hash=sha256:00 --hash=sha256:11",
        "onnx==1.23.2",
    )
    assert pipeline.stage("export").environment is None
    assert pipeline.stage("own").environment == Environment("locked", lines, ("protobuf>6", "sympy<2"))
    assert pipeline.stage("target").environment == vino
    target = pipeline.stage("target").target
    assert target is not None
    assert target.environment == vino
    read = {str(tmp_path / name) for name in ("lock.txt", "limits.txt", "more/least.txt", "more/others.txt")}
    assert read <= pipeline.sources.keys()


@pytest.mark.parametrize(
    "line",
    [
        "-e ../mine",
        "--editable .",
        "./wheels/a-1-py3-none-any.whl",
        "/wheels/a",
        "../b",
        "a @ file:///b",
        "file:///b.whl",
        "a-1.tar.gz",
    ],
)
def test_what_is_on_no_index_is_told(tmp_path: Path, line: str) -> None:
    (tmp_path / "lock.txt").write_text(line, "utf-8")
    assert complaint(tmp_path, "environments: {e: {requirements: lock.txt}}\n") == (
        "lock.txt:1:1: error: an isolated environment cannot hold what is not on a package index\n"
        f"    1 | {line}\n"
        f"      | {'^' * len(line)}\n"
        "  expected: packages with versions, or URLs\n"
        "\n"
        "p.yaml:1:1: error: missing 'stages', a required key of a pipeline file\n"
        "    1 | environments: {e: {requirements: lock.txt}}\n"
        "      | ^\n"
        "  expected: `stages:` a mapping of stage names to stages"
    )


@pytest.mark.parametrize(
    "line",
    [
        "a==1",
        "a[b]==1; python_version > '3'",
        "a @ https://example.org/a-1.tar.gz",
        "a@https://example.org/a-1.tar.gz",
        "https://example.org/a-1-py3-none-any.whl",
        "--pre",
    ],
)
def test_what_pip_can_fetch_is_kept(tmp_path: Path, line: str) -> None:
    (tmp_path / "lock.txt").write_text(line, "utf-8")
    requirements = Requirements()
    requirements.read(tmp_path / "lock.txt")
    assert (requirements.lines, requirements.problems) == ([line], [])


FILES = {
    "itself.txt": "numpy==2.4.6\n  -r itself.txt\n",
    "a.txt": "-r b.txt",
    "b.txt": "numpy==2.4.6 \\\n  --hash=sha256:00\n--requirement=./c.txt # why",
    "c.txt": "-ca.txt",
    "gone.txt": "-r none.txt",
    "folder.txt": "-r .",
    "pipe.txt": "-c pipe",
    "nul.txt": "-r null",
    "null": "a\0b",
    "wide.txt": "-r wide",
    "noise.txt": "-r noise",
    "twice.txt": "-r one.txt\n-c one.txt\n-r two.txt",
    "one.txt": "a==1\n-r least.txt\n",
    "two.txt": "b==1\n-r least.txt\n-r one.txt",
    "least.txt": "\ufeffc==1",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of requirements files that include one another, and of what cannot be included."""
    folder = tmp_path_factory.mktemp("files")
    for file, text in FILES.items():
        (folder / file).write_text(text, "utf-8")
    for number in range(33):
        (folder / f"chain{number}.txt").write_text(f"-r chain{number + 1}.txt")
    for number in range(257):
        (folder / f"m{number}.txt").touch()
    (folder / "many.txt").write_text("".join(f"-r m{number}.txt\n" for number in range(257)))
    (folder / "noise").write_bytes(b"\xff")
    (folder / "wide").write_text("a==1", "utf-16")
    os.mkfifo(folder / "pipe")
    return folder


@pytest.mark.parametrize(
    ("name", "place", "message"),
    [
        ("itself.txt", "itself.txt:2:6", "the requirements file includes itself"),
        (
            "a.txt",
            "c.txt:1:3",
            "these requirements files include one another in a loop: a.txt -> b.txt -> c.txt -> a.txt",
        ),
        ("gone.txt", "gone.txt:1:4", "cannot read 'none.txt': No such file or directory"),
        ("folder.txt", "folder.txt:1:4", "cannot read '.': Is a directory"),
        ("pipe.txt", "pipe.txt:1:4", "cannot read 'pipe': Not a regular file"),
        ("nul.txt", "nul.txt:1:4", "cannot read 'null': it holds a NUL character"),
        ("wide.txt", "wide.txt:1:4", "cannot read 'wide': it is UTF-16: save it as UTF-8"),
        ("noise.txt", "noise.txt:1:4", "cannot read 'noise': it is no text"),
        ("chain0.txt", "chain31.txt:1:4", "more than 32 requirements files include one another"),
        ("many.txt", "many.txt:256:4", "more than 256 requirements files are included"),
    ],
)
def test_what_cannot_be_included_is_told_where_it_is_named(files: Path, name: str, place: str, message: str) -> None:
    requirements = Requirements()
    requirements.read(files / name)
    first = requirements.problems[0]
    assert (str(first.position), first.message) == (f"{files}/{place}", message)


def test_a_long_name_is_shortened_in_its_message(tmp_path: Path) -> None:
    (tmp_path / "lock.txt").write_text(f"-r {'x' * 10_000}", "utf-8")
    requirements = Requirements()
    requirements.read(tmp_path / "lock.txt")
    (problem,) = requirements.problems
    assert problem.message == f"cannot read '{'x' * 147} ... {'x' * 139}': File name too long"


def test_a_file_may_be_included_by_several_and_also_constrain(files: Path) -> None:
    requirements = Requirements()
    requirements.read(files / "twice.txt")
    assert (requirements.lines, requirements.constraints, requirements.problems) == (
        ["a==1", "c==1", "b==1"],
        ["a==1", "c==1"],
        [],
    )


def test_a_line_of_blanks_takes_no_longer_than_its_length(tmp_path: Path) -> None:
    (tmp_path / "lock.txt").write_text(" " * 100_000 + "x==1\n" + "y\\\n" * 100_000, "utf-8")
    requirements = Requirements()
    requirements.read(tmp_path / "lock.txt")
    assert requirements.lines == ["x==1", "y" * 100_000]
