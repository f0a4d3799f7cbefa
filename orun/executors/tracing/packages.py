"""Distributions that a stage depends on: all that its process has loaded or looked for, whoever asked.

What is only installed beside them does not count. The libraries that orun itself loads in every process of a stage
(`OWN`) count only if the user's code imports them or a distribution that counts requires them.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from orun.environment import distributions
from orun.environment.distributions import PACKAGES
from orun.environment.python_path import STARTUP
from orun.environment.startup import HOOKS
from orun.executors.local.module_sources import read_source
from orun.executors.tracing.imports import is_foreign
from orun.executors.tracing.recorder import absolute
from orun.stages.code import TEXTS

OWN = frozenset({"blake3", "msgspec", "typing_extensions"})  # the last where msgspec finds it

Files = Mapping[str, Collection[str]]  # files or folders of top-level modules


def modules_needed(
    asked: Iterable[str], imported: Collection[str], is_code: Callable[[str], bool]
) -> tuple[Files, set[str]]:
    """Find the top-level modules that are not the user's, and that this process has loaded or looked for.

    Args:
        asked: those that were looked for, in this process or a worker.
        imported: those that the user's code imports.
        is_code: whether a file is the user's own.

    Returns:
        Those that are there, with their files, and the names of those that are nowhere.
    """
    loaded = set(filter(_counts, {module.partition(".")[0] for module in list(sys.modules)}))
    specs = {name: importlib.util.find_spec(name) for name in set(filter(_counts, asked)) - loaded}
    found = {name: _files(name) for name in loaded} | {name: places(spec) for name, spec in specs.items() if spec}
    there = {name: files for name, files in found.items() if not any(map(is_code, files))}
    own = OWN - set(imported)
    if own:
        own -= {
            name.replace("-", "_")
            for one in _distributions(_without(there, own))
            for name in distributions.requirements(one)
        }
    return _without(there, own), {name for name, spec in specs.items() if spec is None}


def _counts(module: str) -> bool:
    """Whether a top-level module may count: what Python loads at its start is in the key."""
    return is_foreign(module) and module not in STARTUP and not HOOKS.search(module)


def _without(modules: Files, names: Collection[str]) -> Files:
    return {name: files for name, files in modules.items() if name not in names}


def imports_of(files: Iterable[str]) -> set[str]:
    """Top-level names of modules that Python files import, but for Python's own and orun."""
    names: set[str] = set()
    for file in files:
        with contextlib.suppress(OSError):  # a program may remove what it has run
            names |= read_source(TEXTS.get(file) or Path(file).read_bytes()).imports
    return set(filter(is_foreign, names))


def packages_of(modules: Files, absent: Iterable[str]) -> dict[str, str]:
    """Return distribution -> version of those that modules are of.

    Args:
        modules: those that are there.
        absent: names of those that are not; each is taken for the name of its distribution.
    """
    found = {
        name: distributions.installed().get(name, distributions.ABSENT) for name in map(distributions.normalise, absent)
    }
    found |= {name: distributions.installed()[name] for name in _distributions(modules)}
    alone = map(distributions.normalise, modules.keys() - _owners(modules).keys())
    return dict(
        sorted({**{name: distributions.PRESENT for name in alone if name in distributions.modules()}, **found}.items())
    )


def unowned(modules: Files) -> set[str]:
    """Return the files of loaded modules that no distribution has brought, such as modules copied to their place."""
    alone = modules.keys() - _owners(modules).keys()
    found = (module for name, module in list(sys.modules.items()) if name.partition(".")[0] in alone)
    return {absolute(file) for module in found if (file := _attribute(module, "__file__"))} if alone else set()


def _distributions(modules: Files) -> set[str]:
    return {name for names in _owners(modules).values() for name in names}


def _owners(modules: Files) -> dict[str, list[str]]:
    """Normalised names of the distributions of each module that has one."""
    named = {
        name: [normal] for name in modules if (normal := distributions.normalise(name)) in distributions.installed()
    }
    rest = tuple(sorted((name, tuple(sorted(modules[name]))) for name in modules.keys() - named.keys()))
    return named | _recorded(rest)


@functools.lru_cache(maxsize=4)
def _recorded(modules: tuple[tuple[str, tuple[str, ...]], ...]) -> dict[str, list[str]]:
    """The same of those whose distributions have other names, for which lists of files are read."""
    return distributions.owners(dict(modules))


def stands_alone(path: str) -> bool:
    """Whether a source among the installed packages is a module whose name no distribution has.

    Its content may count and not a version (see `unowned`); that it is of a distribution all the same takes longer to
    find out than to compile one file.
    """
    folder, _, file = path.rpartition("/")
    return (
        folder.endswith(PACKAGES) and distributions.normalise(file.removesuffix(".py")) not in distributions.installed()
    )


def _files(module: str) -> list[str]:
    """The file of a loaded module; of a package without one those of the modules right below it."""
    if file := _attribute(sys.modules.get(module), "__file__"):
        return [file]
    inside = [name for name in list(sys.modules) if name.startswith(f"{module}.")]
    return [
        file for name in inside if not _lies_in_file(name) and (file := _attribute(sys.modules.get(name), "__file__"))
    ]


def _lies_in_file(module: str) -> bool:
    """Whether the package around a module has a file, by which its distribution is known."""
    return bool(_attribute(sys.modules.get(module.rpartition(".")[0]), "__file__"))


def places(spec: ModuleSpec) -> list[str]:
    """Return the file of a module that is not loaded; of a package without one its folders."""
    return [spec.origin] if spec.has_location and spec.origin else list(spec.submodule_search_locations or ())


def _attribute(module: ModuleType | None, name: str) -> str | None:
    """An attribute that is a text, without having a module load that waits to be asked for one."""
    try:
        found: Any = object.__getattribute__(module, "__dict__").get(name)
    except AttributeError:  # it is None, or some other object that was put in the place of a module
        return None
    return found if isinstance(found, str) else None
