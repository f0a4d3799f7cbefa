"""Searches for top-level modules in the process of a stage, found or not, by any code.

Imports, `importlib.util.find_spec`, `pkgutil.find_loader` and pickles search the module path. A module that is already
loaded is not searched for, and counts because it is loaded (`packages.py`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

# The standard library, orun, and modules that the standard library searches for on Java.
PYTHON = sys.stdlib_module_names | {"orun", "__main__", "__mp_main__", "java", "org"}
BUILD = "_sysconfigdata_"  # module of the standard library with another name on each machine

_unrecorded: list[None] = []  # one item for each active `unrecorded` block


@contextmanager
def unrecorded() -> Iterator[None]:
    """Record no searches in this block: they are the server's own, not those of stages that it forks later."""
    _unrecorded.append(None)
    try:
        yield
    finally:
        _unrecorded.pop()


class ModuleSearches:
    """Searches from `install` on, including those of libraries as a fork server imports them.

    Attributes:
        names: top-level modules that were searched for.
        missed: modules that a namespace package lacks -> folders of the package. Any distribution may add to it.
    """

    def __init__(self) -> None:
        self.names: dict[str, bool] = {}
        self.missed: dict[str, list[str]] = {}

    def install(self) -> None:
        """Record searches of the module path from now on."""
        search = PathFinder.find_spec

        def find_spec(
            _: type, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
        ) -> ModuleSpec | None:
            spec = search(fullname, path, target)
            if _unrecorded:
                return spec
            if path is None:
                self._record(fullname.partition(".")[0])
            elif spec is None and fullname not in self.missed and _is_namespace(fullname.rpartition(".")[0]):
                self.missed[fullname] = list(path)
            return spec

        PathFinder.find_spec = classmethod(find_spec)  # type: ignore[assignment]  # `sys.meta_path` holds the class

    @property
    def missing_paths(self) -> list[str]:
        """Paths at which the missed modules would be, and are not."""
        names = ((folder, name.rpartition(".")[2]) for name, folders in self.missed.items() for folder in folders)
        paths = (path for folder, name in names for path in (f"{folder}/{name}", f"{folder}/{name}.py"))
        return [path for path in paths if not os.path.lexists(path)]

    def _record(self, name: str) -> None:
        if name not in self.names and is_foreign(name):
            self.names[name] = True


def _is_namespace(package: str) -> bool:
    """Return whether a package has no file, so that any distribution may add to it."""
    return is_foreign(package.partition(".")[0]) and getattr(sys.modules.get(package), "__file__", None) is None


def is_foreign(module: str) -> bool:
    """Return whether a top-level module is neither of the standard library nor of orun."""
    return bool(module) and module not in PYTHON and not module.startswith(BUILD)
