"""Locale variables (`LANG`, `LC_*`) that a stage takes from the environment: C looks them up, not `os.environ`."""

from __future__ import annotations

import functools
from typing import Any

from orun.executors.local.import_hooks import when_loaded
from orun.executors.tracing.frames import calling
from orun.executors.tracing.variables import HELPERS, Variables

ALL, LAST = "LC_ALL", "LANG"  # goes before the variable of each category, and after it
CATEGORIES = (
    "LC_ADDRESS", "LC_COLLATE", "LC_CTYPE", "LC_IDENTIFICATION", "LC_MEASUREMENT", "LC_MESSAGES", "LC_MONETARY",
    "LC_NAME", "LC_NUMERIC", "LC_PAPER", "LC_TELEPHONE", "LC_TIME",
)  # fmt: skip
AT_START = "LC_CTYPE"  # Python takes this one when it starts
QUESTIONS = ("getencoding", "getlocale", "nl_langinfo")


class Locales:
    """Has the variables of each locale that is taken noted.

    Args:
        variables: where they are noted.
    """

    def __init__(self, variables: Variables) -> None:
        self._variables = variables

    def install(self) -> None:
        """Have functions of `locale` told to this object."""
        when_loaded({"locale": self._watch})

    def _watch(self, module: Any) -> None:
        module.setlocale = self._setting(module.setlocale, {getattr(module, name, None): name for name in CATEGORIES})
        for name in QUESTIONS:
            if call := getattr(module, name, None):  # not every version of Python has each
                setattr(module, name, self._asking(call))

    def _setting(self, call: Any, categories: dict[int | None, str]) -> Any:
        """Whoever sets a locale sets it for the process; only the standard library sets it back."""

        @functools.wraps(call)
        def setlocale(category: int, locale: Any = None) -> Any:
            by_library = calling((), depth=1)[0] != "locale"
            if locale == "" and (by_library or self._is_asked()):
                self._take(*((categories[category],) if category in categories else CATEGORIES))
            elif locale is None and self._is_asked():
                self._take(AT_START)
            return call(category, locale)

        return setlocale

    def _asking(self, call: Any) -> Any:
        @functools.wraps(call)
        def asking(*arguments: Any, **options: Any) -> Any:
            if self._is_asked():
                self._take(AT_START)
            return call(*arguments, **options)

        return asking

    def _is_asked(self) -> bool:
        """Whether the project's code is calling the function that calls this, be it by the standard library."""
        return self._variables.is_code(calling(HELPERS, depth=2)[1])

    def _take(self, *categories: str) -> None:
        """Note what C looks up: for each category the first variable that is set, and those before it."""
        for category in categories:
            any(map(self._variables.taken, (ALL, category, LAST)))
