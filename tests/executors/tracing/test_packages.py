from __future__ import annotations

from importlib.metadata import version

import pytest

from orun.executors import LocalExecutor
from orun.stages.contract import Spec
from tests.executors.support import Project, result


@pytest.mark.parametrize(
    ("imports", "distributions"),
    [
        ("import json, os, orun", []),
        ("import numpy", ["numpy"]),
        ("import yaml", ["pyyaml"]),
        ("import onnx.helper", ["ml-dtypes", "numpy", "onnx", "protobuf", "typing-extensions"]),
        ("def g():\n    import onnxruntime", []),
    ],
)
def test_what_the_project_s_code_imports_and_that_requires(
    executor: LocalExecutor, project: Project, imports: str, distributions: list[str]
) -> None:
    project.write("pipelines/helper.py", f"{imports}\n")
    project.write("pipelines/mine.py", "import helper\ndef f(context): pass\n")
    packages = result(executor, project.job("mine.py:f")).packages
    assert packages == {name: version(name) for name in distributions}


def test_what_the_kind_alone_has_loaded_counts_too(executor: LocalExecutor, project: Project) -> None:
    """And what that looks for in vain, as its libraries do when a fork server loads them."""
    project.write("pipelines/mine.py", "def f(context):\n    pass\n")
    spec = Spec(output="metrics", preload=("onnx",))
    packages = result(executor, project.job("mine.py:f", spec=spec)).packages
    there = {name: packages[name] for name in packages if packages[name] != "not installed"}
    assert there == {name: version(name) for name in ("ml-dtypes", "numpy", "onnx", "protobuf", "typing-extensions")}


def test_what_would_be_imported_if_it_were_installed(executor: LocalExecutor, project: Project) -> None:
    project.write("pipelines/mine.py", "try: import Fancy_Speed.up\nexcept ImportError: pass\ndef f(context): pass\n")
    assert result(executor, project.job("mine.py:f")).packages == {"fancy-speed": "not installed"}


@pytest.mark.parametrize(
    ("asks", "packages"),
    [
        ("import importlib.metadata\nimportlib.metadata.version('Ml_Dtypes')", {"ml-dtypes": version("ml-dtypes")}),
        ("from importlib.metadata import requires\nrequires('onnx')", {"onnx": version("onnx")}),
        ("from importlib import metadata\ntry: metadata.version('absent')\nexcept ImportError: pass",
         {"absent": "not installed"}),
        ("from importlib.metadata import entry_points\nentry_points(group='none')", {}),
        ("import importlib.metadata", {}),
    ],
)  # fmt: skip
def test_whose_version_the_project_s_code_asks_for(
    executor: LocalExecutor, project: Project, asks: str, packages: dict[str, str]
) -> None:
    body = "\n".join(f"    {line}" for line in asks.splitlines())
    project.write("pipelines/mine.py", f"def f(context):\n{body}\n")
    assert result(executor, project.job("mine.py:f")).packages == packages
    late = Spec(output="metrics", preload=("importlib.metadata",))
    assert result(executor, project.job("mine.py:f", spec=late)).packages == packages
