"""orun doctor."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from orun.cli.doctor import format_facts
from orun.environment import distributions
from orun.environment.platforms import list_missing_functions
from orun.executors import explain_partial_tracing
from orun.report.terminal import Terminal
from tests.project import install_hint

from .conftest import CommandLine

FACTS = {
    "orun": "0.2.0",
    "python": "3.11.7",
    "platform": "Linux-6.18-x86_64",
    "store": {"folder": "artifacts", "writable": True, "free": 72_100_000_000, "notices": ["a record was put away"]},
    "trace": {"level": "full", "why": ""},
    "tools": [
        {"tool": "onnx", "version": "1.23.2", "needed_by": ["convert/onnx", "quantize/dynamic"], "install": ""},
        {"tool": "torch", "version": None, "needed_by": ["convert/torch"], "install": 'pip install "orun[torch]"'},
        {"tool": "keras", "version": None, "needed_by": ["convert/tensorflow"], "install": 'pip install "orun[tf]"'},
        {"tool": "tf2onnx", "version": None, "needed_by": ["convert/tensorflow"], "install": 'pip install "orun[tf]"'},
    ],
    "providers": {
        "CUDAExecutionProvider": {"loads": False, "why_not": "libcublas.so.13: cannot open shared object file"},
        "CPUExecutionProvider": {"loads": True, "why_not": ""},
    },
    "environments": [
        {"folder": "/cache/1f", "holds": ["onnx==1.23.2", "numpy==2.4.6"], "packages": {}, "damage": ""},
        {"folder": "/cache/2d", "holds": [f"p{i}==1 --hash=sha256:0" for i in range(8)], "packages": {}, "damage": ""},
        {"folder": "/cache/2e", "holds": ["tiny==1.0"], "packages": {}, "damage": "its interpreter is gone"},
    ],
}
MISSING_ON_MACOS = (
    "`resources.memory` reserves memory for a stage, and does not stop a stage that takes more",
    "a process that a stage starts and leaves behind is ended only if it stayed in the stage's process group",
    "measurements choose no quiet core, and do not tell how long threads waited for one",
)


def test_the_whole_report() -> None:
    assert "\n".join(format_facts(FACTS, Terminal())) == (
        """\
orun 0.2.0, Python 3.11.7, Linux-6.18-x86_64
store: artifacts, 72.1 GB free
  a record was put away
trace: full

tool     version  needed by
onnx     1.23.2   convert/onnx, quantize/dynamic
torch    missing  convert/torch
keras    missing  convert/tensorflow
tf2onnx  missing  convert/tensorflow
to install torch: pip install "orun[torch]"
to install keras, tf2onnx: pip install "orun[tf]"

provider               loads  why not
CUDAExecutionProvider  no     libcublas.so.13: cannot open shared object file
CPUExecutionProvider   yes

isolated environment  made for                                      state
/cache/1f             onnx==1.23.2, numpy==2.4.6                    OK
/cache/2d             p0==1, p1==1, p2==1, p3==1, p4==1 and 3 more  OK
/cache/2e             tiny==1.0                                     will be made again: its interpreter is gone"""
    )


def test_a_store_that_cannot_be_written_and_no_runtime() -> None:
    facts = {
        **FACTS,
        "store": {"folder": "artifacts", "writable": False, "free": 1},
        "providers": {},
        "environments": [],
    }
    lines = format_facts(facts, Terminal())
    assert lines[1] == "store: artifacts, not writable"
    assert lines[-1] == "ONNX Runtime is not installed: no providers"


def test_what_other_systems_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list_missing_functions() == ()
    monkeypatch.setattr("orun.environment.platforms.sys", SimpleNamespace(platform="darwin"))
    lines = format_facts({**FACTS, "missing": list_missing_functions()}, Terminal())
    assert lines[4:8] == [*(f"missing on this system: {clause}" for clause in MISSING_ON_MACOS), ""]


def test_stages_that_are_traced_in_part() -> None:
    facts = {**FACTS, "trace": {"level": "python", "why": "only Linux reports it, and this is Darwin"}}
    assert format_facts(facts, Terminal())[3] == (
        "trace: python: files that native code and other programs open are not seen: only Linux reports it, and this "
        "is Darwin"
    )


def test_this_machine(orun: CommandLine, project: Path) -> None:
    shown = orun("doctor", "words.yaml", "--json")
    document = json.loads(shown.out)
    assert (shown.code, shown.err) == (0, "")
    assert document["store"]["folder"] == str(project / "artifacts")
    assert document["providers"]["CPUExecutionProvider"]["loads"] is True
    why = explain_partial_tracing()
    assert document["trace"] == {"level": "python" if why else "full", "why": why}
    assert document["tools"] == []
    assert document["problems"] == []
    assert not (project / "artifacts").exists()


@pytest.mark.usefixtures("no_providers")
def test_what_a_file_lacks(orun: CommandLine, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "model.onnx").touch()
    (project / "lacking.yaml").write_text("stages:\n  import: {uses: convert/onnx, with: {path: model.onnx}}\n")
    monkeypatch.setattr(distributions, "find", lambda *_: None)
    shown = orun("doctor", "lacking.yaml")
    assert shown.code == 2
    assert shown.out.startswith("orun 0.2.0, Python 3.")
    assert shown.err == (
        "lacking.yaml:2:3: error: stage 'import' (convert/onnx) needs onnx, which is not installed\n"
        f"  hint: {install_hint('cpu')}\n"
    )
