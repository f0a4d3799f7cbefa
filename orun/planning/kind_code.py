"""Code of a kind: the modules that run with it, and the digest over them."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from blake3 import blake3

from orun.environment import distributions
from orun.environment.call_cache import cache_calls
from orun.fs.signatures import Signature, to_signature
from orun.pipeline.model import KindUse
from orun.stages.contract import to_module_name

TYPE_CHECKING = ("TYPE_CHECKING", "typing.TYPE_CHECKING")  # conditions that hold for type checkers alone

# Modules that pass values on, remember them, end processes, refuse to begin, or word why a stage failed: they cannot
# change what a stage makes.
HARMLESS = frozenset(
    {
        "orun",
        "orun.core.serialization",
        "orun.errors",
        "orun.core.metrics",
        "orun.core.targets",
        "orun.environment.call_cache",
        "orun.environment.entry_points",
        "orun.fs.machine_folder",
        "orun.environment.processes",
        "orun.environment.user_cache",
        "orun.measure.accuracy.failed_feeds",
        "orun.measure.dataset_origin",
        "orun.stages.contract",
        "orun.stages.library_errors",
        "orun.stages.library_warnings",
        "orun.stages.memory_headroom",
        "orun.stages.name_checks",
        "orun.stages.params",
        "orun.store",
        "orun.text.library_messages",
    }
)

PAGES = (".css", ".html", ".mjs")  # endings of the files of web pages that stages write or open

Digest = Callable[[Path], str]


def digest_stage_code(use: KindUse, digest: Digest) -> str:
    """Return the digest of the code that runs with a built-in or plug-in kind, and with the kinds that it builds with.

    The user's own function is covered by its reference; its imports are seen while it runs.
    """
    if use.origin == "file":
        return ""
    hasher = blake3()
    modules = (use.entry, *map(to_module_name, use.spec.builds_with))
    for name, path in sorted({file for module in modules for file in list_code_files(module)}):
        hasher.update(f"{name} {digest(Path(path))}\n".encode())
    version = (
        f" {use.distribution} {distributions.list_installed().get(use.distribution, '')}" if use.distribution else ""
    )
    return hasher.hexdigest() + version


def list_code_files(module: str) -> tuple[tuple[str, str], ...]:
    """Return name and path of a module, and of each module of its package and web file that it reaches."""
    return tuple((name, path) for name, path, has_code in find_reachable(module) if has_code)


@cache_calls
def find_reachable(module: str, skipped: frozenset[str] = HARMLESS) -> tuple[tuple[str, str, bool], ...]:
    """Return name and path of every module that runs with a module, and whether it has statements.

    A module runs with another module that imports it, lies in its package, or holds its name as text (a process is
    started by such a name). So does a file of a web page beside a module that holds its name. Imports for type checkers
    do not count. Modules are located in the package's folder and parsed: `importlib` would import their parents.

    Modules in `skipped` are neither returned nor followed.
    """
    package = module.partition(".")[0]
    spec = importlib.util.find_spec(package)
    places = (spec.submodule_search_locations or [spec.origin or ""]) if spec else []
    tops = [Path(place).parent for place in places if place]  # a package without `__init__.py` may have several
    if not tops:
        raise ModuleNotFoundError(f"no package {package!r}")
    modules: list[tuple[str, str, bool]] = []
    seen = set(skipped)
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in seen or name.partition(".")[0] != package:
            continue
        seen.add(name)
        waiting.append(name.rpartition(".")[0])
        if path := _find_source(tops, name):
            package_name = name if path.name == "__init__.py" else name.rpartition(".")[0]
            has_code, names = _parse_contents(path, package_name, to_signature(path.stat()))
            modules.append((name, str(path), has_code))
            pages = [path.with_name(text) for text in names if text.endswith(PAGES)]
            modules += [(f"{name}/{page.name}", str(page), True) for page in pages if page.is_file()]
            waiting += names
    return tuple(sorted(modules))


@cache
def _parse_contents(path: Path, package: str, _signature: Signature) -> tuple[bool, tuple[str, ...]]:
    """Return whether a module has statements, and the names in it. A module of the same signature is parsed once."""
    tree = ast.parse(path.read_bytes())
    return any(not _is_text(node) for node in tree.body), tuple(_list_names(tree, package))


def _find_source(tops: Iterable[Path], module: str) -> Path | None:
    stems = [top.joinpath(*module.split(".")) for top in tops]
    candidates = (path for stem in stems for path in (stem.with_name(f"{stem.name}.py"), stem / "__init__.py"))
    return next((path for path in candidates if path.is_file()), None)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _list_names(tree: ast.Module, package: str) -> list[str]:
    """Return the names that a module imports or holds as text; not all of them are names of modules."""
    names: list[str] = []
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            anchor = parts[: len(parts) - node.level + 1] if node.level else []
            base = ".".join([*anchor, *([node.module] if node.module else [])])
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value.partition(":")[0]
            names += [text] if all(map(str.isidentifier, text.split("."))) else []
        elif isinstance(node, ast.If) and ast.unparse(node.test) in TYPE_CHECKING:
            waiting += node.orelse
        else:
            waiting += ast.iter_child_nodes(node)
    return names
