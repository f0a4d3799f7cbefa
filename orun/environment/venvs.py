"""Isolated environments for packages that conflict with orun's own.

The folder of an environment is named by a digest of its request, interpreter and platform, so all pipelines and stores
of a user share it. `packages.json` holds the resolved versions. It is written last. If the rest is removed, it names
the versions to install again. `contents.json` lists the files, so that changes are noticed. Any of these folders may be
removed.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path

import blake3
import msgspec

import orun
from orun.core.serialization import Record, decode, field, from_json
from orun.core.targets import Environment, Interpreter
from orun.environment import distributions, venv_contents
from orun.environment.user_cache import locate_cache
from orun.errors import UsageError
from orun.fs.bounded_reads import RECORD_LIMIT, read_bounded

# Packages that a stage's process imports to run orun's code. They are linked, not installed, so that they do not
# constrain the environment's versions. Compiled modules fit, because the interpreter is the same.
LINKED = {library.__name__: Path(str(library.__file__)).parent for library in (orun, blake3, msgspec)}
RECORD = "packages.json"
BRINGERS = frozenset({"pip", "setuptools", "wheel"})  # they may only serve to install the others


class EnvironmentRecord(Record, frozen=True):
    """Contents of an environment: a request and what it resolved to."""

    requirements: tuple[str, ...]  # lines of the request
    packages: Mapping[str, str] = field(default_factory=dict)  # that pip installed, by normalized name
    exact: Mapping[str, str] = field(default_factory=dict)  # with a build label, if no index served it


def locate_root() -> Path:
    """Return the folder of all isolated environments: `ORUN_ENVIRONMENTS`, else in the user's cache.

    Raises:
        UsageError: when there is none.
    """
    if chosen := os.environ.get("ORUN_ENVIRONMENTS"):
        return Path(chosen).absolute()
    return locate_cache() / "environments"


@functools.cache
def digest(environment: Environment) -> str:
    """Return the digest of the request, the interpreter and the platform, without the name: 32 hex digits."""
    interpreter = [sys.implementation.cache_tag, sys.base_prefix, sys.platform, platform.machine()]
    request = [list(environment.requirements), list(environment.constraints), interpreter]
    return blake3.blake3(json.dumps(request).encode()).hexdigest()[:32]


def locate_folder(environment: Environment) -> Path:
    """Return the folder of an environment, which need not exist yet."""
    return locate_root() / digest(environment)


def locate_record(environment: Environment) -> Path:
    """Return the path of the record of an environment."""
    return locate_folder(environment) / RECORD


def read_all() -> dict[Path, EnvironmentRecord]:
    """Return every complete environment on this machine, by its folder."""
    try:
        records = sorted(locate_root().glob(f"*/{RECORD}"))
    except UsageError:  # no folder to make environments in
        return {}
    return {record.parent: contents for record in records if (contents := read(record))}


def read(record: Path) -> EnvironmentRecord | None:
    """Read a record; None if it is missing or damaged."""
    try:
        return _read(str(record), record.stat().st_mtime_ns)
    except (OSError, ValueError, KeyError, TypeError):
        return None


@functools.lru_cache(maxsize=64)
def _read(record: str, _changed: int) -> EnvironmentRecord:
    return decode(EnvironmentRecord, from_json(read_bounded(record, RECORD_LIMIT)))


def read_packages(environment: Environment | None) -> Mapping[str, str] | None:
    """Return the version of every distribution in an environment as `distributions.list_exact` does, by name.

    None stands for orun's own packages. An environment that was never made on this machine is empty.
    """
    if environment is None:
        return None
    contents = read(locate_record(environment))
    return {**contents.packages, **contents.exact} if contents else {}


def is_known(environment: Environment | None) -> bool:
    """Return whether the versions of an environment are known: it was made here, or is orun's own."""
    return environment is None or read(locate_record(environment)) is not None


def can_run(environment: Environment | None) -> bool:
    """Return whether programs can run in an environment now, as in orun's own."""
    return environment is None or (
        is_known(environment) and os.access(locate_python(locate_folder(environment)), os.X_OK)
    )


def locate_prefix(folder: Path) -> Path:
    """Return the top folder of an environment's interpreter."""
    return folder / "venv"


def locate_python(folder: Path) -> Path:
    """Return the path of an environment's interpreter."""
    return locate_prefix(folder) / "bin" / "python"


def describe_damage(folder: Path) -> str:
    """Return why an environment cannot be used as it is, as a clause; empty if it matches its record."""
    contents = read(folder / RECORD)
    if contents is None:
        return "it is not there"
    if not os.access(locate_python(folder), os.X_OK):
        return "its interpreter is gone"
    there = list_packages_in(folder)
    for name in sorted((there.keys() - BRINGERS) | contents.packages.keys()):
        if there.get(name) != contents.packages.get(name):
            return f"{name} is {there.get(name, 'gone')} instead of {contents.packages.get(name, 'absent')}"
    return venv_contents.describe_difference(folder, locate_prefix(folder))


def list_packages_in(folder: Path) -> dict[str, str]:
    """Return the versions of the distributions that are installed in an environment now."""
    return dict(sorted(distributions.list_installed_in(_list_site_packages(folder)).items()))


def list_exact_in(folder: Path) -> dict[str, str]:
    """Return the versions with a build label of distributions that no index served; see `distributions.list_exact`."""
    there, versions = list_packages_in(folder), distributions.list_exact_in(_list_site_packages(folder))
    return {name: version for name, version in versions.items() if version != there[name]}


def _list_site_packages(folder: Path) -> list[str]:
    return [str(path) for path in locate_prefix(folder).glob("lib/python3.*/site-packages")]


def choose_interpreter(environment: Environment | None) -> Interpreter:
    """Return the Python of an environment, or orun's own for None, and its `PYTHONPATH` for orun's code."""
    if environment is None:
        return Interpreter(sys.executable, os.environ.get("PYTHONPATH"))
    return Interpreter(str(locate_python(locate_folder(environment))), str(_create_links()))


def _create_links() -> Path:
    """Return a folder with links to `LINKED` and nothing else; create it if necessary."""
    targets = {name: str(path.resolve()) for name, path in LINKED.items()}
    folder = locate_root() / "links" / blake3.blake3(json.dumps(targets).encode()).hexdigest()[:32]
    folder.mkdir(parents=True, exist_ok=True)
    for name, target in targets.items():
        link = folder / name
        if not link.is_symlink():
            fresh = folder / f".{name}-{os.urandom(6).hex()}"
            fresh.symlink_to(target)
            fresh.rename(link)  # two processes may do so at once
    return folder
