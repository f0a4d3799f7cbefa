"""Distributions that the user's code depends on: those it imports, and what these require, as far as it is loaded."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from orun.environment import tools
from orun.executors.sources import read_source
from orun.stages.code import TEXTS

REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def foreign_imports(files: Iterable[str], is_code: Callable[[str], bool]) -> tuple[set[str], set[str]]:
    """Top-level names of modules that Python files import: of installed ones that are loaded, and of those nowhere.

    Args:
        files: the files.
        is_code: whether a file is the project's own.
    """
    names = {name for file in files for name in read_source(TEXTS.get(file) or Path(file).read_bytes()).imports}
    names -= sys.stdlib_module_names | {"orun"}
    loaded = {name for name in names if name in sys.modules}
    absent = {name for name in names - loaded if importlib.util.find_spec(name) is None}
    return {name for name in loaded if not is_code(getattr(sys.modules[name], "__file__", None) or "")}, absent


def packages_of(modules: Iterable[str], absent: Iterable[str]) -> dict[str, str]:
    """Distribution -> version of those that modules are of, and of what these require, as far as it is loaded.

    Args:
        modules: top-level names of modules that are loaded.
        absent: of those that are not installed; each is taken for the name of its distribution.
    """
    waiting = [distribution for module in modules for distribution in _distributions(module)]
    found = {name: tools.ABSENT for name in map(tools.normalise, absent) if name not in tools.installed()}
    while waiting:
        name = waiting.pop()
        if name in found or name not in tools.installed():
            continue
        found[name] = tools.installed()[name]
        waiting.extend(required for required in _requirements(name) if _is_loaded(required))
    return dict(sorted(found.items()))


def _distributions(module: str) -> list[str]:
    """Names of the distributions that a top-level module is of."""
    if tools.normalise(module) in tools.installed():
        return [tools.normalise(module)]
    from importlib.metadata import packages_distributions  # reads the file list of every distribution: only if needed

    return [tools.normalise(name) for name in packages_distributions().get(module, ())]


def _requirements(distribution: str) -> set[str]:
    """Names of all that a distribution may require, extras included."""
    from importlib.metadata import requires

    matches = (REQUIREMENT.match(line) for line in requires(distribution) or ())
    return {tools.normalise(matched[0]) for matched in matches if matched}


def _is_loaded(distribution: str) -> bool:
    if distribution not in tools.installed():
        return False
    if distribution.replace("-", "_") in sys.modules:
        return True
    return any(name in sys.modules for name in _top_levels(distribution))


def _top_levels(distribution: str) -> set[str]:
    """Names of the top-level modules of a distribution."""
    from importlib.metadata import distribution as find

    metadata = find(distribution)
    if listed := metadata.read_text("top_level.txt"):
        return set(listed.split())
    return {file.parts[0].removesuffix(".py") for file in metadata.files or () if file.suffix == ".py"}
