"""Code that Python runs when it starts, in every stage process: `sitecustomize`, `usercustomize`, `.pth` files."""

# ruff: noqa: PTH118, PTH120, PTH123, PTH208  (strings: every run reads these files)

from __future__ import annotations

import os
import re
import site
from collections.abc import Iterator

from blake3 import blake3

from orun.environment.call_cache import cache_calls
from orun.environment.python_path import STARTUP, VARIABLE, list_folders

ENDS = ("/__init__.py", ".py", ".pyc")  # suffixes of a module, in Python's order
IMPORTS = ("import ", "import\t")  # prefixes of code lines; other lines are folders
SHOWN = 16  # hexadecimal digits of a digest
# Modules with which installers make other modules importable; a stage does not depend on them.
HOOKS = re.compile(r"\b(__editable__|_editable_impl_|_distutils_hack\b|_virtualenv\b)|_editable(_loader)?\b")
NAMESPACES = "-nspkg.pth"  # suffix of old setuptools' files for namespace packages


@cache_calls
def list_startup_code(*, isolated: bool = False) -> tuple[tuple[str, str], ...]:
    """Return the files with startup code, in the order in which Python runs it, each with a digest of the code.

    Args:
        isolated: whether for an isolated environment, whose packages have their own record.
    """
    library = os.path.dirname(os.__file__)
    if isolated:
        return tuple(_iter_modules([library]))
    folders = [*list_folders(os.environ.get(VARIABLE, "")), library]
    files_and_code: list[tuple[str, str]] = []
    for folder in _list_site_folders():
        folders.append(folder)
        for path in _list_path_files(folder):
            lines = [line.strip() for line in _read(path).decode("utf-8", "replace").splitlines() if line.strip()]
            folders += [os.path.join(folder, line) for line in lines if not line.startswith(("#", *IMPORTS))]
            code = [line for line in lines if line.startswith(IMPORTS) and not HOOKS.search(line)]
            if code and not path.endswith(NAMESPACES):
                files_and_code.append((path, _digest("\n".join(code).encode())))
    return (*files_and_code, *_iter_modules(folders))


def _list_site_folders() -> list[str]:
    """Return the folders whose `.pth` files Python reads."""
    user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    return [*user, *site.getsitepackages()]


def _list_path_files(folder: str) -> list[str]:
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return [f"{folder}/{name}" for name in sorted(names) if name.endswith(".pth")]


def _iter_modules(folders: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the first module of each name."""
    names = STARTUP if site.ENABLE_USER_SITE else STARTUP[:1]
    for name in names:
        paths = (f"{folder}/{name}{end}" for folder in folders for end in ENDS)
        if path := next(filter(os.path.isfile, paths), None):
            yield path, _digest(_read(path))


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:  # Python skips unreadable files too
        return b""


def _digest(code: bytes) -> str:
    return blake3(code).hexdigest()[:SHOWN]
