"""Code that runs in the process of every stage, pinned to the format of keys.

`python -m tests.process_code` pins it anew; it refuses while `FORMAT` of `orun.planning.cache_key` is the pinned one.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from blake3 import blake3

from orun.planning import cache_key, kind_code

PINS = Path(__file__).with_name("process_code.json")
ENTRIES = ("orun.executors.local.stage_process", "orun.executors.local.zygote")
# They import on demand, and a stage's process demands nothing of them.
FACADES = frozenset({"orun", "orun.executors", "orun.store"})


def modules() -> dict[str, str]:
    """Return the digest of each module that runs in the process of every stage, comments and docstrings left out."""
    reached = {name: path for name, path, does in _reached() if does}
    return {name: digest(Path(path).read_bytes()) for name, path in sorted(reached.items())}


def names() -> set[str]:
    """Return the names of those modules, and of packages that hold nothing but text."""
    return {name for name, _, _ in _reached()}


def _reached() -> Iterator[tuple[str, str, bool]]:
    return (module for entry in ENTRIES for module in kind_code.find_reachable(entry, FACADES))


def digest(source: bytes) -> str:
    """Return a digest of what a source file does; every version of Python gives the same."""
    return blake3(repr(_plain(ast.parse(source))).encode()).hexdigest()[:16]


def _plain(node: Any) -> Any:
    if isinstance(node, list):
        texts = [item for item in node if isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant)]
        return [_plain(item) for item in node if item not in texts]
    if not isinstance(node, ast.AST):
        return node
    if isinstance(node, ast.JoinedStr):  # to which Python 3.12 adds empty texts
        node.values = [value for value in node.values if not isinstance(value, ast.Constant) or value.value]
    fields = ((name, _plain(value)) for name, value in ast.iter_fields(node) if name not in ("ctx", "type_comment"))
    return type(node).__name__, [(name, value) for name, value in fields if value not in (None, [])]


def pinned() -> dict[str, Any]:
    """Return what is pinned: `format` and `modules`."""
    content: dict[str, Any] = json.loads(PINS.read_text(encoding="utf-8"))
    return content


def main() -> None:
    """Pin the code as it is."""
    now = modules()
    if PINS.exists() and pinned()["modules"] != now and pinned()["format"] == cache_key.FORMAT:
        sys.exit(
            "code of every stage's process changed: "
            f"raise FORMAT in orun/planning/cache_key.py above {cache_key.FORMAT} first"
        )
    PINS.write_text(json.dumps({"format": cache_key.FORMAT, "modules": now}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
