"""Isolated environments in a pipeline file: what they hold and who runs in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from orun.core.targets import Environment
from orun.pipeline.requirements import Requirements

from .support import EXPORT, loaded

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
    (folder / "more" / "others.txt").write_text("onnx==1.23.2\n-r ../lock.txt\n--constraint=least.txt", "utf-8")
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
    ["-e ../mine", "--editable .", "./wheels/a-1-py3-none-any.whl", "/wheels/a", "../b", "a @ file:///b", "a-1.tar.gz"],
)
def test_what_is_on_no_index_is_told(tmp_path: Path, line: str) -> None:
    (tmp_path / "lock.txt").write_text(line, "utf-8")
    found = Requirements()
    found.read(tmp_path / "lock.txt")
    assert (found.lines, found.local) == ([], [f"lock.txt: {line}"])


@pytest.mark.parametrize(
    "line", ["a==1", "a[b]==1; python_version > '3'", "a @ https://example.org/a-1.tar.gz", "--pre"]
)
def test_what_pip_can_fetch_is_kept(tmp_path: Path, line: str) -> None:
    (tmp_path / "lock.txt").write_text(line, "utf-8")
    found = Requirements()
    found.read(tmp_path / "lock.txt")
    assert (found.lines, found.local) == ([line], [])
