"""Modules that no `import` statement in a file of the user's tells of, by what happens while a stage runs."""

from __future__ import annotations

import functools
import importlib
import sys
from types import ModuleType

from orun.executors.tracing.frames import FINDERS, calling
from orun.executors.tracing.packages import PYTHON
from orun.executors.tracing.scope import installed

BUILT = "_sysconfigdata_"  # how this Python was built: of the standard library, under a name of its own on each machine


class Imports:
    """Modules that a setting names, what was pickled is of, or code asks for that stands in no module.

    Attributes:
        named: their top-level names, of those that are not there, too.
    """

    def __init__(self) -> None:
        self.named: dict[str, bool] = {}
        self._begun = False

    def install(self) -> None:
        """Have imports told to this object; those of a package's own modules, as it loads them late, are none."""
        call = importlib.import_module

        @functools.wraps(call)
        def noting(name: str, package: str | None = None) -> ModuleType:
            if self._begun and isinstance(name, str):
                self._note(name, calling(FINDERS, depth=1)[0])
            return call(name, package)

        importlib.import_module = noting

    def begin(self) -> None:
        """Note them from now on."""
        self._begun = True

    def imported(self, module: str, *_: object) -> None:
        """Note a module that is about to be loaded, unless a package asks for it: `exec` and hubs have code as well."""
        if self._begun:
            caller, file = calling(FINDERS, depth=2)
            if not file.startswith(installed()):
                self._note(module, caller)

    def unpickled(self, module: str, _name: str) -> None:
        """Note a module of which a class or function is taken out of a pickle."""
        if self._begun:
            self._note(module, "")

    def _note(self, name: str, caller: str) -> None:
        top = name.partition(".")[0]
        known = top in sys.stdlib_module_names | PYTHON or top.startswith(BUILT)
        if top and caller not in (top, "orun") and not known and top not in self.named:
            self.named[top] = True
