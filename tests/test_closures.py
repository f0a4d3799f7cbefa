"""Width of keys: which code of orun is in the key of each kind, and that no other code runs in a stage."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from orun.environment.call_cache import forget
from orun.planning import cache_key, kind_code
from orun.stages.contract import to_module_name
from orun.stages.registry import BUILTIN
from tests import process_code

MOST = 60  # modules and pages in the key of a kind
NEVER = (
    "orun.cli", "orun.report", "orun.runner.runner", "orun.api", "orun.text.suggestions", "orun.text.aliases",
    "orun.executors", "orun.pipeline", "orun.planning.planner", "orun.remote", "orun.history", "orun.gates",
    "orun.blame", "orun.stages.registry",
)  # fmt: skip
LOADED = """
import importlib, sys
importlib.import_module(sys.argv[1])
print(*(name for name, one in sys.modules.items() if name.partition(".")[0] == "orun" and one.__file__))
"""


@pytest.mark.parametrize("kind", BUILTIN)
def test_the_key_of_a_kind_holds_the_code_of_that_kind_alone(kind: str) -> None:
    names = [name for name, _ in kind_code.list_code_files(to_module_name(kind))]
    assert to_module_name(kind) in names
    assert len(names) <= MOST
    assert [name for name in names if any(name == never or name.startswith(f"{never}.") for never in NEVER)] == []


@pytest.mark.parametrize("kind", ["release/publish", "release/card", "measure/accuracy", "quantize/tune"])
def test_what_the_import_of_a_kind_runs_is_in_its_key_or_in_that_of_every_stage(kind: str) -> None:
    process = subprocess.run(
        [sys.executable, "-c", LOADED, to_module_name(kind)], capture_output=True, text=True, check=True, timeout=60
    )
    counted = {name for name, _, _ in kind_code.find_reachable(to_module_name(kind))} | process_code.names()
    assert set(process.stdout.split()) - counted - process_code.FACADES - kind_code.HARMLESS == set()


def names_from(package: str, path: Path) -> list[str]:
    """The names that a file imports from a package itself."""
    source = path.read_text(encoding="utf-8")
    nodes = ast.walk(ast.parse(source)) if f"from {package} import" in source else ()
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module == package]
    return [alias.name for node in imports for alias in node.names]


def test_the_facade_is_in_no_key_because_no_module_takes_a_name_of_it() -> None:
    package = Path(cache_key.__file__).parents[1]
    paths = [path for path in package.rglob("*.py") if path.parent.name != "cli"]
    names = {name for path in paths for name in names_from("orun", path)} - {"__version__"}
    assert [name for name in names if not (package / name).is_dir() and not (package / f"{name}.py").is_file()] == []


def test_the_store_is_in_no_key_because_no_module_of_a_stage_takes_a_name_of_its_facade() -> None:
    reached = [kind_code.find_reachable(entry, process_code.FACADES) for entry in process_code.ENTRIES]
    reached += [kind_code.find_reachable(to_module_name(kind)) for kind in BUILTIN]
    store = Path(cache_key.__file__).parents[1] / "store"
    paths = {Path(path) for modules in reached for _, path, _ in modules if path.endswith(".py")}
    names = {name for path in paths for name in names_from("orun.store", path)}
    assert [name for name in names if not (store / f"{name}.py").is_file()] == []


def test_the_code_of_every_stage_s_process_has_a_version() -> None:
    """Raise `FORMAT` in orun/planning/cache_key.py, and run `python -m tests.process_code`."""
    assert process_code.pinned() == {"format": cache_key.FORMAT, "modules": process_code.modules()}


def test_the_pin_sees_code_and_no_comments() -> None:
    plain = process_code.digest(b"def f(a):\n    return a + 1\n")
    assert process_code.digest(b'"""Text."""\ndef f(a):\n    """Text."""\n    return a + 1  # comment\n') == plain
    assert process_code.digest(b"def f(a):\n    return a + 2\n") != plain


def test_the_pin_is_not_moved_without_a_new_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_code, "PINS", tmp_path / "pins.json")
    process_code.main()
    before = process_code.pinned()
    monkeypatch.setattr(process_code, "modules", lambda: {"orun.executors.local.stage_function": "edited"})
    with pytest.raises(SystemExit, match=r"raise FORMAT in orun/planning/cache_key\.py"):
        process_code.main()
    assert process_code.pinned() == before
    monkeypatch.setattr(cache_key, "FORMAT", cache_key.FORMAT + 1)
    process_code.main()
    assert process_code.pinned() == {
        "format": cache_key.FORMAT,
        "modules": {"orun.executors.local.stage_function": "edited"},
    }


def test_a_kind_that_builds_with_others_has_their_code_in_its_key() -> None:
    from orun.pipeline.model import KindUse
    from orun.stages.registry import find

    kind = find("quantize/tune", Path())
    use = KindUse(kind.origin, kind.entry, kind.spec)
    changed = to_module_name("quantize/dynamic").replace(".", "/")
    edited = lambda path: "edited" if str(path).endswith(f"{changed}.py") else "same"  # noqa: E731
    assert kind_code.digest_stage_code(use, lambda _: "same") != kind_code.digest_stage_code(use, edited)


def test_types_texts_and_packages_in_the_code_of_a_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "orun_closure_package"
    for folder in (package, package / "inner"):
        folder.mkdir()
    (package / "__init__.py").write_text('"""Nothing but text."""\n')
    (package / "inner" / "__init__.py").write_text("from orun_closure_package import shared\n")
    (package / "inner" / "kind.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from orun_closure_package import types\n"
        'else:\n    from orun_closure_package import real\nCOMMAND = "orun_closure_package.worker:serve"\n'
    )
    for name in ("shared", "types", "real", "worker", "other"):
        (package / f"{name}.py").write_text("a = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    names = [name for name, _ in kind_code.list_code_files("orun_closure_package.inner.kind")]
    assert names == [f"orun_closure_package.{name}" for name in ("inner", "inner.kind", "real", "shared", "worker")]


def test_a_module_that_was_edited_since_the_last_call_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "orun_edited_package"
    package.mkdir()
    for name in ("first", "second"):
        (package / f"{name}.py").write_text("a = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for imported in ("first", "second"):
        (package / "kind.py").write_text(f"from orun_edited_package import {imported}\n")
        forget()
        names = [name for name, _ in kind_code.list_code_files("orun_edited_package.kind")]
        assert names == [f"orun_edited_package.{name}" for name in sorted((imported, "kind"))]


def test_the_key_of_a_kind_that_uses_object_storage_holds_nothing_else_of_the_store() -> None:
    names = [name for name, _ in kind_code.list_code_files(to_module_name("release/publish"))]
    assert [name for name in names if name.startswith("orun.store")] == ["orun.store.object_storage"]
