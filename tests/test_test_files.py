"""Rules on the files of the tests: their place, and no private name of another module."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import orun

TESTS = Path(__file__).parent
PACKAGE = Path(orun.__file__).parent
# `os._exit`, and what IPython calls.
ALLOWED = {"_exit", "_repr_html_"}
WHOLE_PACKAGE = {"acceptance", "benchmarks", "docs", "faults", "packaging", "reruns"}  # folders that test all rooms
MODULES = ("orun", "benchmarks", "tests")
MAY_USE = re.compile(
    r"(?<!self)\._[a-z]|import .*\b_[a-z]|^    _[a-z]\w*,$|[\"']_[a-z]", re.MULTILINE
)  # else it is not parsed


def private_names(source: str) -> Iterator[str]:
    """Yield the private functions and attributes of other modules that a file uses; private files are not meant."""
    tree = ast.parse(source)
    own = set(_defined(tree)) | ALLOWED
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            names = [node.attr]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(MODULES):
            names = [name.name for name in node.names if not _is_file(f"{node.module}.{name.name}")]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr":
            texts = [word.value for word in node.args[:2] if isinstance(word, ast.Constant)]
            names = [str(text).rpartition(".")[2] for text in texts if str(text).startswith((*MODULES, "_"))]
        else:
            continue
        yield from (name for name in names if name.startswith("_") and not name.startswith("__") and name not in own)


def _defined(tree: ast.Module) -> Iterator[str]:
    """Yield the functions, fields and attributes that a file defines itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            yield node.attr


def _is_file(module: str) -> bool:
    path = TESTS.parent.joinpath(*module.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def test_tests_use_no_private_name_of_another_module() -> None:
    sources = {path: path.read_text("utf-8") for path in TESTS.rglob("*.py")}
    uses = [
        f"{path.relative_to(TESTS)}: {name}"
        for path, source in sources.items()
        if MAY_USE.search(source) and path.relative_to(TESTS).parts[0] != "cases"
        for name in private_names(source)
    ]
    assert uses == []


def test_folders_of_tests_are_those_of_the_package() -> None:
    """A test of a folder of a room stands in the folder of that name: no `report/test_html.py` for `report/html/`."""
    places = [path.relative_to(TESTS) for path in TESTS.rglob("test_*.py")]
    of_rooms = [place for place in places if len(place.parts) > 1 and place.parts[0] not in WHOLE_PACKAGE]
    assert [str(place) for place in of_rooms if not (PACKAGE / place.parent).is_dir()] == []
    folders = [folder.relative_to(PACKAGE) for folder in PACKAGE.rglob("[a-z]*/") if folder.is_dir()]
    names = {folder: f"test_{folder.name}" for folder in folders}
    above = [
        str(place)
        for place in of_rooms
        for folder, name in names.items()
        if folder.parent == place.parent and (place.stem == name or place.stem.startswith(f"{name}_"))
    ]
    assert above == []


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("from orun.api import _one\n", ["_one"]),
        ("from orun.stages.release import _destination\n", []),
        ("import orun\norun.api._one()\n", ["_one"]),
        ("patch.setattr('orun.api._one', None)\npatch.setattr(api, '_two', None)\n", ["_one", "_two"]),
        ("class A:\n    def __init__(self):\n        self._own = 1\n\ndef f(a):\n    return a._own\n", []),
    ],
)
def test_a_private_name_is_seen(source: str, names: list[str]) -> None:
    assert list(private_names(source)) == names
