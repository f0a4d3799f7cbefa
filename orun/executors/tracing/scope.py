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
from orun.environment.python_path import PACKAGE, VARIABLE, on_path
from orun.executors.job import Job

# What belongs to the machine: it differs from one to the next without a stage meaning it.
SYSTEM = ("/proc", "/sys", "/dev", "/etc", "/run", "/usr", "/lib", "/lib64", "/bin", "/sbin", "/System", "/Library")
DISKS, MEMORY = "/run/media/", "/dev/shm/"  # noqa: S108 - among these: disks that are plugged in, and memory
# Secrets come from the environment or from these; no digest of them is kept.
CREDENTIALS = (".netrc", ".aws", ".azure", ".config/gcloud", ".ssh", ".cache/huggingface/token")
# Caches that drivers and libraries rebuild by themselves from what is known otherwise.
CACHES = (".nv", ".triton", ".cache/fontconfig", ".cache/matplotlib", ".cache/mesa_shader_cache", ".cache/miopen")
MARK = "pyvenv.cfg"  # what tells a virtual environment
ENVIRONMENT = ("bin", "etc", "include", "lib", "lib64", "share", MARK)  # what is in one


class Scope:
    """Tells the user's files from others by their paths.

    Args:
        code: the top folders of the user's own code; none when they are not known yet.
        own: further folders and files that are no discoveries (the store, the folders of the stage).
        named: folders of the machine that are discoveries all the same, because the stage is told of a file there.

    Attributes:
        made_of: these arguments.
    """

    def __init__(self, code: Iterable[str] = (), own: Iterable[str] = (), named: Iterable[str] = ()) -> None:
        self.made_of = tuple(code), tuple(own), tuple(named)
        code, own, named = self.made_of
        ignored = (*installed(), *_prefixes(own))
        self._code = _prefixes(code)
        # A project inside a prefix of the machine (/usr/src/app) is the user's, a prefix inside it (.venv) is not.
        self._below = tuple(one for one in ignored if one.startswith(self._code) and one not in self._code)
        self._own = _prefixes(own)
        self._named = _prefixes(named)
        self._inside = tuple(one for one in self._named if one.startswith(self._below))  # what is named in an .venv

    @classmethod
    def of(cls, job: Job) -> Scope:
        """The scope of a job."""
        ignored = tuple(f"{folder}/" for folder in job.ignore)
        own = (*job.inputs.values(), job.output, job.scratch, job.log, job.lineage or job.log)
        code = (job.project, *(() if job.interpreter else places(os.environ.get(VARIABLE, ""))))
        named = tuple(folder for folder in job.named if _is_of_one(f"{folder}/"))
        return scope_of(code, (*job.ignore, *(path for path in own if not path.startswith(ignored))), named)

    def is_code(self, path: str) -> bool:
        """Whether an absolute path leads to the user's own code, in the project or where `PYTHONPATH` says."""
        return f"{path}/".startswith(self._code) and not f"{path}/".startswith(self._below)

    def is_above(self, path: str) -> bool:
        """Whether an absolute path leads to a folder of the user's code, or one above it: that is where it lies."""
        return any(folder.startswith(f"{path.rstrip('/')}/") for folder in self._code)

    def is_discovery(self, path: str) -> bool:
        """Whether what is read at an absolute path is the user's."""
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
        """Whether it is of the store or the stage, or of the machine, where that does not hold people's data."""
        return name.startswith(self._own) or (name.startswith(installed()) and not _is_data(name))


def _is_data(name: str) -> bool:
    """Whether a place of the machine is where people keep data: memory that processes share has no folders."""
    return name.startswith(DISKS) or (name.startswith(MEMORY) and "/" in name[len(MEMORY) : -1])


@functools.lru_cache(maxsize=64)  # the stages of a pipeline share one
def scope_of(code: tuple[str, ...] = (), own: tuple[str, ...] = (), named: tuple[str, ...] = ()) -> Scope:
    """The scope that is made of these."""
    return Scope(code, own, named)


@functools.lru_cache(maxsize=1)
def places(path: str) -> tuple[str, ...]:
    """Folders of the user's own code outside the project: those of `PYTHONPATH`, but for those of installed packages.

    Args:
        path: its value.
    """
    return tuple(folder for folder in on_path(path) if not _holds_packages(folder))


def _holds_packages(folder: str) -> bool:
    """Whether packages are installed in a folder, be it by `pip install --target`."""
    return f"{folder}/".startswith(installed()) or holds_packages(folder)


@functools.cache
def installed() -> tuple[str, ...]:
    """Prefixes of the paths to the machine's files, the interpreter, installed packages, orun itself and caches."""
    home = os.path.expanduser("~")
    return _prefixes((*_libraries(), *(os.path.join(home, name) for name in (*CREDENTIALS, *CACHES))))


@functools.cache
def _libraries() -> tuple[str, ...]:
    """Those of them in which programs and libraries lie."""
    prefixes = map(_parts, (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix))
    packages = (*site.getsitepackages(), site.getusersitepackages(), os.path.dirname(os.__file__), *_further())
    return _prefixes((*SYSTEM, *chain(*prefixes), *packages, str(PACKAGE), os.path.dirname(blake3.__file__)))


def _parts(prefix: str) -> Iterable[str]:
    """A prefix; of a virtual environment what that is made of: it may have been made where projects and data lie."""
    if os.path.exists(os.path.join(prefix, MARK)):  # noqa: PTH110 - as above
        return [os.path.join(prefix, name) for name in ENVIRONMENT]
    return [prefix]


def _further() -> Iterable[str]:
    """Packages of other environments that are on the path too, as `uv run --with` and a `.pth` file put them there."""
    return (folder for folder in sys.path if folder.startswith("/") and folder.rstrip("/").endswith(PACKAGES))


def _is_of_one(folder: str) -> bool:
    """Whether a folder of the machine belongs to something there, and is not one in which all libraries lie."""
    return folder.startswith(installed()) and not any(prefix.startswith(folder) for prefix in _libraries())


def _prefixes(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"{form.rstrip('/')}/" for path in paths for form in (path, os.path.realpath(path))))
