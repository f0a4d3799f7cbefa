"""Scope of tracing: the user's own files count as dependencies, others do not."""

# ruff: noqa: PTH111, PTH118, PTH120  (strings: every file that a stage opens passes here)

from __future__ import annotations

import functools
import os
import site
import sys
from collections.abc import Iterable
from itertools import chain

import blake3

from orun.environment.distributions import PACKAGES, holds_packages
from orun.environment.python_path import PACKAGE, VARIABLE, list_folders
from orun.executors.job import Job

# Folders of the machine, which differ between machines without affecting a stage's result.
SYSTEM = ("/proc", "/sys", "/dev", "/etc", "/run", "/usr", "/lib", "/lib64", "/bin", "/sbin", "/System", "/Library")
DISKS, MEMORY = "/run/media/", "/dev/shm/"  # noqa: S108 - folders among these where people keep data
# Files of secrets: no digest of them is kept.
CREDENTIALS = (".netrc", ".aws", ".azure", ".config/gcloud", ".ssh", ".cache/huggingface/token")
# Caches that drivers and libraries rebuild by themselves.
CACHES = (".nv", ".triton", ".cache/fontconfig", ".cache/matplotlib", ".cache/mesa_shader_cache", ".cache/miopen")
MARK = "pyvenv.cfg"  # marks a virtual environment
ENVIRONMENT = ("bin", "etc", "include", "lib", "lib64", "share", MARK)  # content of a virtual environment


class Scope:
    """Scope of tracing, by paths.

    Args:
        code: top folders of the user's code; empty while they are not known.
        own: other folders and files that are no dependencies (the store, the folders of the stage).
        named: folders of the machine that are dependencies, because a parameter of the stage names a file there.
    """

    def __init__(self, code: Iterable[str] = (), own: Iterable[str] = (), named: Iterable[str] = ()) -> None:
        self.arguments = tuple(code), tuple(own), tuple(named)
        code, own, named = self.arguments
        ignored = (*list_installed_prefixes(), *_build_prefixes(own))
        self._code = _build_prefixes(code)
        # A project inside a prefix of the machine (/usr/src/app) is the user's, a prefix inside it (.venv) is not.
        self._below = tuple(prefix for prefix in ignored if prefix.startswith(self._code) and prefix not in self._code)
        self._own = _build_prefixes(own)
        self._named = _build_prefixes(named)
        self._inside = tuple(prefix for prefix in self._named if prefix.startswith(self._below))  # named in a .venv

    @classmethod
    def of(cls, job: Job) -> Scope:
        """Return the scope of a job."""
        ignored = tuple(f"{folder}/" for folder in job.ignore)
        own = (*job.inputs.values(), job.output, job.work, job.log, job.provenance or job.log)
        code = (job.project, *(() if job.interpreter else list_python_path_folders(os.environ.get(VARIABLE, ""))))
        named = tuple(folder for folder in job.named_folders if _is_of_one_package(f"{folder}/"))
        return build_scope(code, (*job.ignore, *(path for path in own if not path.startswith(ignored))), named)

    def is_code(self, path: str) -> bool:
        """Return whether an absolute path leads to the user's code, in the project or on `PYTHONPATH`."""
        return f"{path}/".startswith(self._code) and not f"{path}/".startswith(self._below)

    def is_above(self, path: str) -> bool:
        """Return whether an absolute path leads to a top folder of the user's code or of the store, or above it."""
        return any(folder.startswith(f"{path.rstrip('/')}/") for folder in (*self._code, *self._own))

    def is_dependency(self, path: str) -> bool:
        """Return whether a read of an absolute path is an implicit dependency."""
        plain = f"{path}/"
        if plain.startswith(self._code):
            return not plain.startswith(self._below) or plain.startswith(self._inside)
        if plain.startswith(self._named) and not plain.startswith(self._own):
            return True
        real = f"{os.path.realpath(path)}/"
        if real.startswith(self._code):
            return not real.startswith(self._below)
        return not (self._is_foreign(plain) or self._is_foreign(real))

    def _is_foreign(self, name: str) -> bool:
        """Return whether a path belongs to the store, the stage or the machine, except places for people's data."""
        return name.startswith(self._own) or (name.startswith(list_installed_prefixes()) and not _is_data(name))


def _is_data(name: str) -> bool:
    """Return whether people keep data there: on disks, or in folders of `/dev/shm` (shared memory has no folders)."""
    return name.startswith(DISKS) or (name.startswith(MEMORY) and "/" in name[len(MEMORY) : -1])


@functools.lru_cache(maxsize=64)  # the stages of a pipeline share one
def build_scope(code: tuple[str, ...] = (), own: tuple[str, ...] = (), named: tuple[str, ...] = ()) -> Scope:
    """Return the scope of these arguments."""
    return Scope(code, own, named)


@functools.lru_cache(maxsize=1)
def list_python_path_folders(path: str) -> tuple[str, ...]:
    """Return the folders of the user's code outside the project: those of `PYTHONPATH` without installed packages.

    Args:
        path: value of `PYTHONPATH`.
    """
    return tuple(
        folder
        for folder in list_folders(path)
        if not f"{folder}/".startswith(list_installed_prefixes()) and not holds_packages(folder)
    )


@functools.cache
def list_installed_prefixes() -> tuple[str, ...]:
    """Return the path prefixes of the machine's files, the interpreter, installed packages, orun itself and caches."""
    home = os.path.expanduser("~")
    return _build_prefixes((*list_library_prefixes(), *(os.path.join(home, name) for name in (*CREDENTIALS, *CACHES))))


@functools.cache
def list_library_prefixes() -> tuple[str, ...]:
    """Return the prefixes of programs and libraries."""
    prefixes = map(_split_prefix, (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix))
    packages = (
        *site.getsitepackages(),
        site.getusersitepackages(),
        os.path.dirname(os.__file__),
        *_iter_packages_on_path(),
    )
    return _build_prefixes((*SYSTEM, *chain(*prefixes), *packages, str(PACKAGE), os.path.dirname(blake3.__file__)))


def _split_prefix(prefix: str) -> Iterable[str]:
    """Return a prefix, or the content of a virtual environment, which may share its folder with projects and data."""
    if os.path.exists(os.path.join(prefix, MARK)):  # noqa: PTH110 - as above
        return [os.path.join(prefix, name) for name in ENVIRONMENT]
    return [prefix]


def _iter_packages_on_path() -> Iterable[str]:
    """Return packages of other environments on the path, as `uv run --with` or a `.pth` file puts them there."""
    return (folder for folder in sys.path if folder.startswith("/") and folder.rstrip("/").endswith(PACKAGES))


def _is_of_one_package(folder: str) -> bool:
    """Return whether a folder of the machine belongs to a single package, and is no folder of all libraries."""
    return folder.startswith(list_installed_prefixes()) and not any(
        prefix.startswith(folder) for prefix in list_library_prefixes()
    )


def _build_prefixes(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"{form.rstrip('/')}/" for path in paths for form in (path, os.path.realpath(path))))
