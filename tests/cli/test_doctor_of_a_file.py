"""orun doctor FILE: the tools that the stages of the file need, and no others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orun.cli.doctor import format_facts
from orun.environment import distributions
from orun.report.terminal import Terminal

from .conftest import CommandLine
from .test_doctor import FACTS

pytestmark = pytest.mark.usefixtures("no_providers")

PIPELINE = """\
environments: {apart: {packages: [onnxruntime-openvino==1.24.1, numpy==2.4.6]}}
targets: {vino: {environment: apart, providers: [OpenVINOExecutionProvider]}}
stages:
  import: {uses: convert/onnx, with: {path: model.onnx}}
  size: {uses: measure/size, needs: import}
  latency: {uses: measure/latency, needs: import, with: {target: vino}}
  code: {uses: ./words.py:write, with: {text: one}}
"""


def test_only_the_tools_of_its_stages_are_listed(orun: CommandLine, project: Path) -> None:
    (project / "model.onnx").touch()
    (project / "lean.yaml").write_text(PIPELINE)
    shown = orun("doctor", "lean.yaml", "--json")
    installed = distributions.list_installed()
    runtime = distributions.find("onnxruntime")
    assert runtime is not None
    row = {"version": None, "needed_by": ["latency"], "install": "", "environment": "apart", "made": False}
    assert (shown.code, shown.err) == (0, "")
    assert json.loads(shown.out)["tools"] == [
        {"tool": "onnx", "version": installed["onnx"], "needed_by": ["import", "size", "latency"], "install": ""},
        {"tool": "numpy", "version": installed["numpy"], "needed_by": ["size", "latency"], "install": ""},
        {"tool": runtime[0], "version": runtime[1], "needed_by": ["latency"], "install": ""},
        {"tool": "onnxruntime", **row},
        {"tool": "numpy", **row},
    ]


def test_without_a_file_all_kinds_are_looked_at(orun: CommandLine, project: Path) -> None:
    listed = {tool["tool"]: tool["needed_by"] for tool in json.loads(orun("doctor", "--json").out)["tools"]}
    assert listed["torch"] == ["train/distill", "train/finetune", "convert/torch"]
    assert not (project / "artifacts").exists()


def test_a_file_that_needs_no_tool_has_no_table_of_them() -> None:
    shown = format_facts({**FACTS, "tools": []}, Terminal())
    assert (shown[3:5], shown[5].split()) == (["trace: full", ""], ["provider", "loads", "why", "not"])


def test_what_is_in_an_environment_says_so() -> None:
    rows = [
        {"tool": "onnx", "version": "1.23.2", "needed_by": ["import"], "install": "", "environment": "a", "made": True},
        {"tool": "numpy", "version": None, "needed_by": ["import"], "install": "", "environment": "a", "made": True},
        {"tool": "onnx", "version": None, "needed_by": ["later"], "install": "", "environment": "b", "made": False},
    ]
    assert format_facts({**FACTS, "tools": rows}, Terminal())[5:9] == [
        "tool        version       needed by",
        "onnx in a   1.23.2        import",
        "numpy in a  missing       import",
        "onnx in b   not made yet  later",
    ]
