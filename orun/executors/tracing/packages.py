"""Distributions that the user's code depends on: those it imports, and what these require, as far as it is loaded."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import re
import sys
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from pathlib import Path

from orun.environment import distributions
from orun.executors.local.module_sources import read_source
from orun.executors.tracing.recorder import absolute
from orun.executors.tracing.scope import PACKAGES
from orun.stages.code import TEXTS

PYTHON = frozenset({"orun", "__main__"})  # what is there anyway, beside the standard library
REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def foreign_imports(
    files: Iterable[str], is_code: Callable[[str], bool], named: Collection[str] = ()
) -> tuple[set[str], set[str]]:
    """Top-level names of modules that Python files import: of installed ones that are loaded, and of those nowhere.

    Args:
        files: the files.
        is_code: whether a file is the project's own.
        named: modules that were asked for, in this process or a worker.
    """
    names = imports_of(files).union(named)
    origins = {name: getattr(sys.modules[name], "__file__", None) for name in names if name in sys.modules}
    found = {name: importlib.util.find_spec(name) for name in names - origins.keys()}
    origins |= {name: spec.origin for name, spec in found.items() if spec and name in named}
    absent = {name for name, spec in found.items() if spec is None}
    return {name for name, origin in origins.items() if not is_code(origin or "")}, absent


def imports_of(files: Iterable[str]) -> set[str]:
    """Top-level names of modules that Python files import, but for Python's own and orun."""
    names: set[str] = set()
    for file in files:
        with contextlib.suppress(OSError):  # a program may remove what it has run
            names |= read_source(TEXTS.get(file) or Path(file).read_bytes()).imports
    return names - sys.stdlib_module_names - PYTHON


def packages_of(modules: Iterable[str], absent: Iterable[str], loaded: Container[str] | None = None) -> dict[str, str]:
    """Distribution -> version of those that modules are of, and of what these require, as far as it is loaded.

    Args:
        modules: top-level names of modules that are loaded.
        absent: of those that are not installed; each is taken for the name of its distribution.
        loaded: the names of all that are loaded; those of this process when None.
    """
    known = sys.modules if loaded is None else loaded
    waiting = [distribution for module in modules for distribution in _distributions(module)]
    found = {
        name: distributions.ABSENT
        for name in map(distributions.normalise, absent)
        if name not in distributions.installed()
    }
    while waiting:
        name = waiting.pop()
        if name in found or name not in distributions.installed():
            continue
        found[name] = distributions.installed()[name]
        waiting.extend(required for required in _requirements(name) if _is_loaded(required, known))
    return dict(sorted(found.items()))


def _distributions(module: str) -> list[str]:
    """Names of the distributions that a top-level module is of."""
    if distributions.normalise(module) in distributions.installed():
        return [distributions.normalise(module)]
    return [distributions.normalise(name) for name in _owners().get(module, ())]


@functools.cache
def _owners() -> Mapping[str, list[str]]:
    """The distributions of every top-level module; reads the file list of each of them: only if needed."""
    from importlib.metadata import packages_distributions

    return packages_distributions()


def unowned(modules: Iterable[str]) -> set[str]:
    """The files of loaded modules that no distribution has brought, as what was built and copied to its place.

    Args:
        modules: their top-level names.
    """
    alone = {name for name in modules if not _distributions(name)}
    if not alone:
        return set()
    found = (module for name, module in list(sys.modules.items()) if name.partition(".")[0] in alone)
    return {absolute(file) for module in found if (file := getattr(module, "__file__", None))}


def stands_alone(path: str) -> bool:
    """Whether a source among the installed packages is a module whose name no distribution has.

    Its content may count and not a version (see `unowned`); that it is of a distribution all the same takes longer to
    find out than to compile one file.
    """
    folder, _, file = path.rpartition("/")
    return (
        folder.endswith(PACKAGES) and distributions.normalise(file.removesuffix(".py")) not in distributions.installed()
    )


def _requirements(distribution: str) -> set[str]:
    """Names of all that a distribution may require, extras included."""
    from importlib.metadata import requires

    matches = (REQUIREMENT.match(line) for line in requires(distribution) or ())
    return {distributions.normalise(matched[0]) for matched in matches if matched}


def _is_loaded(distribution: str, loaded: Container[str]) -> bool:
    if distribution not in distributions.installed():
        return False
    if distribution.replace("-", "_") in loaded:
        return True
    return any(name in loaded for name in _top_levels(distribution))


def _top_levels(distribution: str) -> set[str]:
    """Names of the top-level modules of a distribution."""
    from importlib.metadata import distribution as find

    metadata = find(distribution)
    if listed := metadata.read_text("top_level.txt"):
        return set(listed.split())
    return {file.parts[0].removesuffix(".py") for file in metadata.files or () if file.suffix == ".py"}
