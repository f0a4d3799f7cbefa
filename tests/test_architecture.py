"""Rooms, the files and folders of `orun/`, import one way: no room imports another that imports it, by any detour."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import orun

PACKAGE = Path(orun.__file__).parent


def room(module: str) -> str:
    """`orun.stages.convert.torch` is in the room `stages`."""
    return module.split(".")[1]


def imports(path: Path) -> Iterator[str]:
    """The modules of orun that a file imports anywhere, for its types too; not the package, which is its face."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [name.name for name in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        if isinstance(node, ast.ImportFrom):
            names = [f"orun.{name}" for name in names] if node.module == "orun" else [node.module or ""]
        yield from (name for name in names if name.startswith("orun.") and not name.endswith("__"))


def test_rooms_import_one_way() -> None:
    graph: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        own = room(".".join(("orun", *path.relative_to(PACKAGE).with_suffix("").parts)))
        graph.setdefault(own, set()).update({room(name) for name in imports(path)} - {own})
    del graph["__init__"]
    order = list(TopologicalSorter(graph).static_order())  # a circle raises, and is named
    assert order.index("store") < order.index("stages") < order.index("planner") < order.index("cli")
    assert "cli" not in set().union(*(graph[one] for one in graph if one != "__main__"))


def test_files_of_a_kind_know_no_other_kind_s_room() -> None:
    """What several kinds share stands in a room beside them."""
    kinds = {"check", "compile", "convert", "diagnose", "measure", "optimize", "quantize", "release"}
    for path in (PACKAGE / "stages").rglob("*.py"):
        own = path.parent.name
        for name in imports(path):
            parts = name.split(".")
            if parts[1] == "stages" and len(parts) > 2 and parts[2] in kinds and own in kinds:
                assert parts[2] == own, f"{path} imports {name}"


@pytest.mark.parametrize("code", ["import orun.api", "from orun import api", "from orun.api import run"])
def test_an_import_is_seen(tmp_path: Path, code: str) -> None:
    (tmp_path / "file.py").write_text(f"def f():\n    {code}\n")
    assert list(imports(tmp_path / "file.py")) == ["orun.api"]


def test_files_stand_on_nothing_of_orun() -> None:
    for path in (PACKAGE / "fs").rglob("*.py"):
        assert {room(name) for name in imports(path)} <= {"fs"}
