"""Distributions that a stage depends on: all that its process has loaded or searched for.

Distributions that are only installed do not count. Libraries that orun itself loads in every stage (`OWN`) count only
if the user's code imports them, or a distribution that counts requires them.
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
from orun.executors.tracing.module_searches import is_foreign
from orun.executors.tracing.recorder import make_absolute
from orun.stages.code import TEXTS

OWN = frozenset({"blake3", "msgspec", "typing_extensions"})  # the last is imported by msgspec if installed

Modules = Mapping[str, Collection[str]]  # top-level module -> its files or folders


def list_needed_modules(
    searched: Iterable[str], imported: Collection[str], is_code: Callable[[str], bool]
) -> tuple[Modules, set[str]]:
    """Return the top-level modules that are not the user's, and that this process has loaded or searched for.

    Args:
        searched: modules that were searched for, in this process or a worker.
        imported: modules that the user's code imports.
        is_code: whether a file is the user's own.

    Returns:
        The installed modules, and the names of those that are not installed.
    """
    loaded = set(filter(_is_relevant, {module.partition(".")[0] for module in list(sys.modules)}))
    specs = {name: importlib.util.find_spec(name) for name in set(filter(_is_relevant, searched)) - loaded}
    modules = {name: _list_files(name) for name in loaded}
    modules |= {name: list_spec_files(spec) for name, spec in specs.items() if spec}
    installed = {name: files for name, files in modules.items() if not any(map(is_code, files))}
    own = OWN - set(imported)
    if own:
        own -= {
            name.replace("-", "_")
            for distribution in _list_distributions(_drop_modules(installed, own))
            for name in distributions.read_requirements(distribution)
        }
    return _drop_modules(installed, own), {name for name, spec in specs.items() if spec is None}


def _is_relevant(module: str) -> bool:
    """Return whether a top-level module may count; modules of Python's startup are in the cache key."""
    return is_foreign(module) and module not in STARTUP and not HOOKS.search(module)


def _drop_modules(modules: Modules, names: Collection[str]) -> Modules:
    return {name: files for name, files in modules.items() if name not in names}


def list_imports(files: Iterable[str]) -> set[str]:
    """Return the top-level modules that Python files import, except the standard library and orun."""
    names: set[str] = set()
    for file in files:
        with contextlib.suppress(OSError):  # a program may remove its script
            names |= read_source(TEXTS.get(file) or Path(file).read_bytes()).imports
    return set(filter(is_foreign, names))


def find_packages(modules: Modules, absent: Iterable[str]) -> dict[str, str]:
    """Return distribution -> version of the distributions of modules.

    Args:
        modules: installed modules.
        absent: modules that are not installed; each name is taken for that of its distribution.
    """
    unowned_names = map(distributions.normalize, modules.keys() - _find_owners(modules).keys())
    versions = {name: distributions.PRESENT for name in unowned_names if name in distributions.list_modules()}
    for name in map(distributions.normalize, absent):
        versions[name] = distributions.list_installed().get(name, distributions.ABSENT)
    versions |= {name: distributions.list_installed()[name] for name in _list_distributions(modules)}
    return dict(sorted(versions.items()))


def list_unowned_files(modules: Modules) -> set[str]:
    """Return the files of loaded modules without a distribution, such as modules copied into `site-packages`."""
    names = modules.keys() - _find_owners(modules).keys()
    loaded = (module for name, module in list(sys.modules.items()) if name.partition(".")[0] in names)
    return {make_absolute(file) for module in loaded if (file := _attribute(module, "__file__"))} if names else set()


def _list_distributions(modules: Modules) -> set[str]:
    return {name for names in _find_owners(modules).values() for name in names}


def _find_owners(modules: Modules) -> dict[str, list[str]]:
    """Return the normalized names of the distributions of each module that has any."""
    named = {
        name: [normal]
        for name in modules
        if (normal := distributions.normalize(name)) in distributions.list_installed()
    }
    rest = tuple(sorted((name, tuple(sorted(modules[name]))) for name in modules.keys() - named.keys()))
    return named | _read_owners(rest)


@functools.lru_cache(maxsize=4)
def _read_owners(modules: tuple[tuple[str, tuple[str, ...]], ...]) -> dict[str, list[str]]:
    """Return the same for modules whose distributions have other names, from the lists of installed files."""
    return distributions.find_owners(dict(modules))


def stands_alone(path: str) -> bool:
    """Return whether an installed source file is a module whose name no distribution has.

    Its content may count in the place of a version (see `list_unowned_files`). To find out whether it belongs to a
    distribution of another name takes longer than to compile one file.
    """
    folder, _, file = path.rpartition("/")
    return (
        folder.endswith(PACKAGES)
        and distributions.normalize(file.removesuffix(".py")) not in distributions.list_installed()
    )


def _list_files(module: str) -> list[str]:
    """Return the file of a loaded module; for a namespace package the files of the modules directly in it."""
    if file := _attribute(sys.modules.get(module), "__file__"):
        return [file]
    inside = [name for name in list(sys.modules) if name.startswith(f"{module}.")]
    files = {name: _attribute(sys.modules.get(name), "__file__") for name in (module, *inside)}
    return [file for name in inside if (file := files[name]) and not files.get(name.rpartition(".")[0])]


def list_spec_files(spec: ModuleSpec) -> list[str]:
    """Return the file of a module that is not loaded; for a namespace package its folders."""
    return [spec.origin] if spec.has_location and spec.origin else list(spec.submodule_search_locations or ())


def _attribute(module: ModuleType | None, name: str) -> str | None:
    """Return an attribute if it is a string, without triggering a lazy module's import."""
    try:
        value: Any = object.__getattribute__(module, "__dict__").get(name)
    except AttributeError:  # None, or another object in the place of a module
        return None
    return value if isinstance(value, str) else None
