"""Rules on the files of `orun/`: the order of rooms, no circles, five files at the root (see docs/architecture.md)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

import orun

PACKAGE = Path(orun.__file__).parent
ROOT = {"__init__.py", "__main__.py", "api.py", "errors.py", "py.typed"}
LIBRARIES = {
    "click", "jinja2", "jsonschema", "keras", "msgspec", "networkx", "numpy", "onnx", "onnxruntime", "onnxsim",
    "optuna", "ray", "rich", "sklearn", "tensorflow", "tf2onnx", "torch", "transformers", "yaml",
}  # fmt: skip
# From the top of the imports to the bottom: each file imports from its own room and from those after it.
ROOMS = (
    "cli", "scaffold", "report", "blame", "api", "noop", "cluster", "agent", "runner", "remote", "planning", "gates",
    "history", "drift", "executors", "pipeline", "stages", "diagnosis", "eventlog", "measure", "store", "environment",
    "fs", "text", "errors", "core", "providers",
)  # fmt: skip


IMPORT = re.compile(r"^[ \t]*(from orun[\w.]* import (?:\([^)]*\)|.+)|import orun.*)", re.MULTILINE)
TEXT = re.compile(r'"""(?:\\.|[^\\])*?"""', re.DOTALL)


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    files = {path.relative_to(PACKAGE.parent).with_suffix(""): path for path in PACKAGE.rglob("*.py")}
    return {".".join(place.parts).removesuffix(".__init__"): path for place, path in files.items()}


@cache
def imports(path: Path) -> tuple[str, ...]:
    """The modules of orun that a file imports anywhere, for its types too."""
    return tuple(_imports(path.read_text(encoding="utf-8")))


def _imports(source: str) -> Iterator[str]:
    statements = IMPORT.findall(source)
    if statements != IMPORT.findall(TEXT.sub("", source)):  # some are in a text: the syntax tells which
        statements = [source]
    for node in ast.walk(ast.parse("\n".join(statements))):  # to parse all files would take seconds
        names = [name.name for name in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            full = [f"{node.module}.{name.name}" for name in node.names]
            names = [name if name in modules() else node.module or "" for name in full]
        yield from (name for name in names if name.startswith("orun."))


def test_rooms_import_from_those_below_them() -> None:
    up = [
        f"{name} -> {imported}"
        for name, path in modules().items()
        if name not in ("orun", "orun.__main__")
        for imported in imports(path)
        if ROOMS.index(name.split(".")[1]) > ROOMS.index(imported.split(".")[1])
    ]
    assert up == []


def test_no_files_import_one_another() -> None:
    graph = nx.DiGraph((name, imported) for name, path in modules().items() for imported in imports(path))
    assert [sorted(circle) for circle in nx.strongly_connected_components(graph) if len(circle) > 1] == []


@pytest.mark.parametrize("package", ["eventlog", "executors"])
def test_others_use_only_the_exports_of_a_room(package: str) -> None:
    """Other rooms are used by their modules: eager exports would import what few verbs need, as planning does."""
    inside = [
        f"{name} -> {imported}"
        for name, path in modules().items()
        if not name.startswith(f"orun.{package}")
        for imported in imports(path)
        if imported.startswith(f"orun.{package}.")
    ]
    assert inside == []


def test_the_root_holds_five_files() -> None:
    assert {path.name for path in PACKAGE.iterdir() if path.is_file()} == ROOT


def test_each_room_is_in_the_order_and_on_the_page() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders | {"api", "errors"} == set(ROOMS)
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert tuple(re.findall(r"^\| `(\w+)(?:/|\.py)` \|", page, re.MULTILINE))[: len(ROOMS)] == ROOMS


def test_every_folder_is_a_package() -> None:
    folders = {path.parent for path in modules().values()} - {PACKAGE / "stages"}  # whose families are the packages
    assert [folder for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_no_folder_has_the_name_of_a_library() -> None:
    folders = {path.parent.name for path in modules().values()}
    assert folders & LIBRARIES == set()


def test_files_of_a_kind_know_no_other_kind_s_room() -> None:
    """What several families share stands in a private folder beside them."""
    families = {"check", "compile", "convert", "diagnose", "measure", "optimize", "quantize", "release", "train"}
    for name, path in modules().items():
        own = name.split(".")[2] if name.startswith("orun.stages.") else ""
        for imported in imports(path):
            family = imported.split(".")[2] if imported.startswith("orun.stages.") else ""
            if own in families and family in families:
                assert family == own, f"{path} imports {imported}"


@pytest.mark.parametrize(
    "code",
    [
        "import orun.api",
        "from orun import api",
        "from orun.api import run",
        "from orun.api import (\n        run,\n    )  # why",
        'code = """\nfrom orun.store import Store\n"""\n    import orun.api',
        """code = '\"\"\"'\n    import orun.api\n    more = '\"\"\"'""",
    ],
)
def test_an_import_is_seen(tmp_path: Path, code: str) -> None:
    (tmp_path / "file.py").write_text(f"def f():\n    {code}\n")
    assert imports(tmp_path / "file.py") == ("orun.api",)
