"""Lookups of locale variables (`LANG`, `LC_*`), which C code reads without `os.environ`."""

from __future__ import annotations

import functools
from typing import Any

from orun.executors.local.import_hooks import run_when_loaded
from orun.executors.tracing.frames import find_caller
from orun.executors.tracing.variables import HELPERS, Variables

ALL, LAST = "LC_ALL", "LANG"  # looked up before and after the variable of each category
CATEGORIES = (
    "LC_ADDRESS", "LC_COLLATE", "LC_CTYPE", "LC_IDENTIFICATION", "LC_MEASUREMENT", "LC_MESSAGES", "LC_MONETARY",
    "LC_NAME", "LC_NUMERIC", "LC_PAPER", "LC_TELEPHONE", "LC_TIME",
)  # fmt: skip
AT_START = "LC_CTYPE"  # Python reads this category when it starts
GETTERS = ("getencoding", "getlocale", "nl_langinfo")


class Locales:
    """Recorder of the variables of each locale that is set or queried.

    Args:
        variables: takes the records.
    """

    def __init__(self, variables: Variables) -> None:
        self._variables = variables

    def install(self) -> None:
        """Record calls of functions of `locale` from now on."""
        run_when_loaded({"locale": self._watch})

    def _watch(self, module: Any) -> None:
        module.setlocale = self._wrap_setlocale(
            module.setlocale, {getattr(module, name, None): name for name in CATEGORIES}
        )
        for name in GETTERS:
            if call := getattr(module, name, None):  # not every version of Python has each
                setattr(module, name, self._wrap_getter(call))

    def _wrap_setlocale(self, call: Any, categories: dict[int | None, str]) -> Any:
        """Record a locale that any code sets, as it holds for the process; only `locale` itself sets it back."""

        @functools.wraps(call)
        def setlocale(category: int, locale: Any = None) -> Any:
            sets_for_process = find_caller((), depth=1)[0] != "locale"
            if locale == "" and (sets_for_process or self._is_called_by_project()):
                self._record(*((categories[category],) if category in categories else CATEGORIES))
            elif locale is None and self._is_called_by_project():
                self._record(AT_START)
            return call(category, locale)

        return setlocale

    def _wrap_getter(self, call: Any) -> Any:
        @functools.wraps(call)
        def call_getter(*arguments: Any, **options: Any) -> Any:
            if self._is_called_by_project():
                self._record(AT_START)
            return call(*arguments, **options)

        return call_getter

    def _is_called_by_project(self) -> bool:
        """Return whether the project's code calls the calling function, also through the standard library."""
        return self._variables.is_code(find_caller(HELPERS, depth=2)[1])

    def _record(self, *categories: str) -> None:
        """Record the variables that C reads: for each category the first that is set, and those before it."""
        for category in categories:
            for name in (ALL, category, LAST):
                if self._variables.record_c_lookup(name):
                    break
