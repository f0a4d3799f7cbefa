"""Imports of each command: start-up time is a feature, and the frameworks belong in a stage's process."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import orun
from orun.__main__ import COLLECTED_AT

FRAMEWORKS = {"numpy", "onnx", "onnxruntime", "ray", "tensorflow", "torch"}
WHEN_NEEDED = {"importlib.resources", "jinja2", "jsonschema", "networkx", "rich", "sqlite3", "tempfile", "xml"}
HELP_NEEDS = {"orun", "orun.__main__", "orun.cli", "orun.cli.main", "orun.cli.verb", "orun.errors"}

REPORT = """
import sys
from orun.cli.main import main
code = main(sys.argv[1:])
print("\\n".join(sorted(sys.modules)), file=sys.stderr)
sys.exit(code)
"""


def modules_after(*arguments: str, cwd: Path | None = None) -> set[str]:
    """Every module that a command line has imported by its end."""
    process = subprocess.run(
        [sys.executable, "-c", REPORT, *arguments], capture_output=True, text=True, check=True, timeout=120, cwd=cwd
    )
    return set(process.stderr.splitlines())


def test_every_public_name_is_there() -> None:
    assert [name for name in orun.__all__ if not hasattr(orun, name)] == []


def test_the_package_imports_nothing_of_its_own() -> None:
    code = "import sys, orun\nprint([name for name in sys.modules if name.startswith('orun.')])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert ended.stdout == "[]\n"


def test_help_imports_click_and_little_else() -> None:
    shown = modules_after("--help")
    assert {name for name in shown if name.partition(".")[0] == "orun"} == HELP_NEEDS - {"orun.__main__"}
    click = subprocess.run(
        [sys.executable, "-c", "import sys, click\nprint('\\n'.join(sys.modules))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    extra = {name.partition(".")[0] for name in shown} - {name.partition(".")[0] for name in click.stdout.splitlines()}
    assert extra <= {"orun", "_locale", "textwrap", "shutil"} | set(sys.stdlib_module_names)
    assert not extra & (FRAMEWORKS | WHEN_NEEDED | {"yaml", "json", "blake3"})


CODE = """
from orun import Context, TargetName, stage

@stage(inputs={}, output="files", stage_class="measurement")
def write(context: Context, *, target: TargetName = "cpu") -> None:
    (context.output / "text").write_text("text")
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that is up to date."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "code.py").write_text(CODE, encoding="utf-8")
    (folder / "one.yaml").write_text("stages: {write: {uses: ./code.py:write}}\n", encoding="utf-8")
    modules_after("one.yaml", cwd=folder)
    return folder


def test_a_run_with_nothing_to_do_imports_next_to_nothing(built: Path) -> None:
    for arguments in (("one.yaml",), ("one.yaml", "-q")):
        seen = modules_after(*arguments, cwd=built)
        assert not seen & (FRAMEWORKS | WHEN_NEEDED)
        assert not seen & {"difflib", "orun.report.failures", "tomllib"}  # which reads the tables
        assert not {name for name in seen if name.startswith("orun.report.html")}


def test_little_is_collected_at_the_start_and_nothing_at_the_end() -> None:
    """In a process that a program calls `orun` in, which has its own mind about that, nothing is changed."""
    text = (
        "import gc; threshold, frozen = gc.get_threshold()[0], gc.get_freeze_count(); from {} import main; main(); "
        "now = gc.get_threshold()[0]; print('as before' if now == threshold else now, gc.get_freeze_count() > frozen)"
    )
    ends = []
    for module in ("orun.__main__", "orun.cli.main"):
        command = [sys.executable, "-c", text.format(module), "--version"]
        process = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        ends.append(process.stdout.splitlines()[-1])
    assert ends == [f"{COLLECTED_AT} True", "as before False"]


def test_putting_an_output_back_imports_the_store_and_no_pipeline(built: Path) -> None:
    modules_after("one.yaml", cwd=built)
    shutil.rmtree(built / "artifacts" / "out")
    seen = modules_after("one.yaml", cwd=built)
    assert (built / "artifacts" / "out" / "one" / "write" / "text").read_text(encoding="utf-8") == "text"
    assert not seen & (FRAMEWORKS | WHEN_NEEDED - {"sqlite3"} | {"orun.planning.planner", "orun.pipeline.loader"})


EACH = """
import json, sys
from orun.cli.main import main
seen = {}
for words in json.loads(sys.argv[1]):
    seen[words] = [main(words.split()), [name for name in json.loads(sys.argv[2]) if name in sys.modules]]
print(json.dumps(seen), file=sys.stderr)
"""
VERBS = (
    "stages",
    "schema",
    "stages quantize/dynamic",
    "plan one.yaml",
    "explain one.yaml write",
    "graph one.yaml",
    "validate one.yaml",
    "one.yaml --force",
    "one.yaml --json --only write",
    "one.yaml --html run.html",
    "doctor one.yaml",
)


def test_no_verb_imports_a_framework(built: Path) -> None:
    """One process runs them all: what an earlier verb imports is seen after each later one, too."""
    code = [sys.executable, "-c", EACH, json.dumps(VERBS), json.dumps(sorted(FRAMEWORKS))]
    process = subprocess.run(code, capture_output=True, text=True, check=True, timeout=120, cwd=built)
    assert json.loads(process.stderr.splitlines()[-1]) == {arguments: [0, []] for arguments in VERBS}
    assert (built / "run.html").is_file()
