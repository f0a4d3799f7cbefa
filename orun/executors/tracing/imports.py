"""Top-level modules that a stage looks for, by whoever asks, and whether they are there or not.

Imports, `importlib.util.find_spec`, `pkgutil.find_loader` and pickles search the path of modules. Only a module that
is loaded already is not searched for: it counts because it is loaded (`packages.py`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

# What is there anyway; and what the standard library looks for where it runs on the Java platform.
PYTHON = sys.stdlib_module_names | {"orun", "__main__", "__mp_main__", "java", "org"}
BUILT = "_sysconfigdata_"  # how this Python was built: of the standard library, under a name of its own on each machine

_unnoted: list[None] = []  # as many as there are blocks of `unnoted` around


@contextmanager
def unnoted() -> Iterator[None]:
    """Return a block in which searches are a server's own: stages that it forks later have no part in them."""
    _unnoted.append(None)
    try:
        yield
    finally:
        _unnoted.pop()


class Imports:
    """What was looked for, from `install` on: what a library asks for as a fork server loads it counts as well.

    Attributes:
        asked: names of top-level modules.
        missed: modules that were not in a package without a file, which several distributions may share -> its folders.
    """

    def __init__(self) -> None:
        self.asked: dict[str, bool] = {}
        self.missed: dict[str, list[str]] = {}

    def install(self) -> None:
        """Have searches of the path told to this object."""
        search = PathFinder.find_spec

        def find_spec(
            _: type, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
        ) -> ModuleSpec | None:
            found = search(fullname, path, target)
            if _unnoted:
                return found
            if path is None:
                self._note(fullname.partition(".")[0])
            elif found is None and fullname not in self.missed and _is_shared(fullname.rpartition(".")[0]):
                self.missed[fullname] = list(path)
            return found

        PathFinder.find_spec = classmethod(find_spec)  # type: ignore[assignment]  # `sys.meta_path` holds the class

    @property
    def absent(self) -> list[str]:
        """Paths at which the modules that were missed would be, and are not."""
        names = ((folder, name.rpartition(".")[2]) for name, folders in self.missed.items() for folder in folders)
        paths = (path for folder, name in names for path in (f"{folder}/{name}", f"{folder}/{name}.py"))
        return [path for path in paths if not os.path.lexists(path)]

    def _note(self, name: str) -> None:
        if name not in self.asked and is_foreign(name):
            self.asked[name] = True


def _is_shared(package: str) -> bool:
    """Whether a package has no file, so that any distribution may add to it."""
    return is_foreign(package.partition(".")[0]) and getattr(sys.modules.get(package), "__file__", None) is None


def is_foreign(module: str) -> bool:
    """Return whether a top-level module is neither of the standard library nor of orun."""
    return bool(module) and module not in PYTHON and not module.startswith(BUILT)
