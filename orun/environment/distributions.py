"""Versions of installed distributions, read from folder names without importing anything."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping

from orun.environment.call_cache import cache_calls

ABSENT = "not installed"  # version of a missing distribution
PRESENT = "installed"  # version of a module without a distribution of its name
PACKAGES = ("/site-packages", "/dist-packages")  # suffixes of the folders that installers fill
OF_MODULES = {  # distributions by their module, where the names differ
    "cv2": "opencv-python-headless", "PIL": "pillow", "sklearn": "scikit-learn", "yaml": "pyyaml",
}  # fmt: skip
MODULES = (".py", ".so", ".pyc", ".pyd")  # suffixes of a module's file
METADATA = (".dist-info", ".egg-info")  # the latter from Linux distributions and old tools
REQUIREMENT = re.compile(rb"^(?:Requires-Dist: *)([A-Za-z0-9][A-Za-z0-9._-]*)", re.MULTILINE)
# Distributions that put an `onnxruntime` module on the path; they exclude one another.
BUILDS = (
    "onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino", "onnxruntime-directml", "onnxruntime-migraphx",
    "onnxruntime-rocm", "onnxruntime-cann", "onnxruntime-vitisai", "onnxruntime-training",
)  # fmt: skip


def normalize(name: str) -> str:
    """Return the name of a distribution as package indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


@cache_calls
def list_installed() -> Mapping[str, str]:
    """Return the version of every distribution on `sys.path`, by normalized name; the first on the path wins."""
    return list_installed_in(sys.path)


@cache_calls
def list_exact() -> Mapping[str, str]:
    """Return `list_installed()` with a build label for distributions that no index served: `1.0+sha256.4f0a`.

    A project that CI installs from its checkout keeps its version while its content changes. The files of an editable
    install are watched, but not a switch to another checkout: its label stands for the folder.
    """
    _keep_states()
    return _read_exact()


@cache_calls
def list_modules() -> frozenset[str]:
    """Return the normalized names of the top-level modules in the folders of installed packages."""
    names = (name for folder in sys.path if holds_packages(folder) for name in _list_names(folder))
    tops = (name.partition(".")[0] for name in names if "." not in name or name.endswith(MODULES))
    names_of_modules = {*tops, *_list_developed_modules()}
    return frozenset(name.lower() if name.isalnum() else normalize(name) for name in names_of_modules)  # most are


def _list_developed_modules() -> list[str]:
    """Return the top-level modules of editable installs, as far as their installers recorded them."""
    metadata = [list_metadata_paths()[name] for name in list_developed()]
    return [name for folder in metadata for name in _read_text(folder, "top_level.txt").decode().split()]


def holds_packages(folder: str) -> bool:
    """Return whether packages are installed in a folder; `pip install --target` may install into any."""
    return folder.rstrip("/").endswith(PACKAGES) or bool(list_installed_in([folder]))


def find_owners(modules: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Find the distributions that installed modules.

    Returns:
        Their normalized names by module; modules of no distribution are left out.
    """
    owners_of: dict[str, list[str]] = {}
    lines_in: dict[str, dict[str, list[bytes]]] = {}  # by folder of packages and module
    for name, metadata in list_metadata_paths().items():
        folder = metadata.rpartition("/")[0]
        if folder not in lines_in:
            lines_in[folder] = {module: _read_recorded(paths, folder) for module, paths in modules.items()}
        if not any(lines_in[folder].values()):
            continue
        listed = _read_text(metadata, "RECORD")
        tops = set() if listed else set(_read_text(metadata, "top_level.txt").decode().split())
        for module, wanted in lines_in[folder].items():
            if module in tops or any(line in listed or listed.startswith(line[1:]) for line in wanted):
                owners_of.setdefault(module, []).append(name)
    return owners_of


def _read_recorded(paths: Iterable[str], folder: str) -> list[bytes]:
    """Return the starts of the lines that paths below a folder have in the lists of files of its distributions.

    The folder may not be the nearest one on `sys.path`: packages add folders of their own to it, `../tools`, too.
    """
    inside = [path for path in map(os.path.normpath, paths) if path.startswith(f"{folder}/")]
    ends = ("/" if os.path.isdir(path) else "," for path in inside)  # noqa: PTH112 - nothing here imports pathlib
    return [b"\n" + os.fsencode(path[len(folder) + 1 :] + end) for path, end in zip(inside, ends, strict=True)]


def read_requirements(distribution: str) -> frozenset[str]:
    """Return the normalized names of everything that an installed distribution may require, extras included."""
    metadata = list_metadata_paths()[distribution]
    text = _read_text(metadata, "METADATA") or re.sub(
        rb"(?m)^", b"Requires-Dist: ", _read_text(metadata, "requires.txt")
    )
    return frozenset(normalize(name.decode()) for name in REQUIREMENT.findall(text))


@cache_calls
def list_metadata_paths() -> Mapping[str, str]:
    """Return the folder of metadata of every distribution on `sys.path`, by normalized name."""
    return {name: metadata for name, (_, metadata) in _scan(sys.path).items()}


def _read_text(metadata: str, name: str) -> bytes:
    """Return the content of a metadata file of a distribution; empty when it is missing."""
    try:
        with open(f"{metadata}/{name}", "rb") as file:  # noqa: PTH123 - nothing here imports pathlib
            return file.read()
    except OSError:
        return b""


def list_exact_now() -> Mapping[str, str]:
    """Return the current value of `list_exact`, uncached: packages may be installed during a run of hours."""
    if (now := _read_states()) != _keep_states():
        versions = _read_exact()
        if versions != list_exact():
            return versions
        _keep_states().update(now)  # another change in one of the folders
    return list_exact()


def _read_exact() -> dict[str, str]:
    return {name: _add_label(version, folder, development=True) for name, (version, folder) in _scan(sys.path).items()}


@cache_calls
def list_developed() -> Mapping[str, str]:
    """Return the source folder of every editable install, by normalized name."""
    noted = {name: metadata for name, (_, metadata) in _scan(sys.path).items() if _is_noted(metadata)}
    if not noted:
        return {}
    from orun.environment.package_origin import find_development_folder

    return {name: folder for name, metadata in noted.items() if (folder := find_development_folder(metadata))}


@cache_calls
def _keep_states() -> dict[str, tuple[int, int] | None]:
    """Return `_read_states` at the time when versions were read."""
    return _read_states()


def _read_states() -> dict[str, tuple[int, int] | None]:
    """Return inode and time of each folder of the path: they change when an entry is added or removed."""
    return {folder: _read_state(folder or ".") for folder in sys.path}


def _read_state(folder: str) -> tuple[int, int] | None:
    try:
        status = os.stat(folder)  # noqa: PTH116 - nothing here imports pathlib
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def list_installed_in(folders: Iterable[str]) -> dict[str, str]:
    """Return the version of every distribution in some folders, by normalized name; the first folder wins."""
    return {name: version for name, (version, _) in _scan(folders).items()}


def list_exact_in(folders: Iterable[str]) -> dict[str, str]:
    """Return the same with build labels, as in `list_exact`; editable installs get none."""
    return {name: _add_label(version, folder) for name, (version, folder) in _scan(folders).items()}


def _scan(folders: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return the version and the metadata folder of every distribution, by normalized name."""
    distributions: dict[str, tuple[str, str]] = {}
    for folder in folders:
        for name in _list_metadata_folders(folder):
            distribution, _, version = name.rpartition(".")[0].partition("-")
            if version:  # else the `.egg-info` of a project's own folder
                distributions.setdefault(
                    normalize(distribution), (version.partition("-py")[0], f"{folder or '.'}/{name}")
                )
    return distributions


def _list_metadata_folders(folder: str) -> list[str]:
    """Return the metadata folders in a folder, `.dist-info` first: it wins if a distribution has both."""
    names = _list_names(folder)
    return [name for kind in METADATA for name in names if name.endswith(kind)]


def _list_names(folder: str) -> list[str]:
    """Return the names in a folder of the path."""
    try:
        return os.listdir(folder or ".")  # noqa: PTH208 - one Path an entry costs more than the listing
    except OSError:  # an entry of sys.path that does not exist, or a zip file
        return []


def _add_label(version: str, metadata: str, *, development: bool = False) -> str:
    """Return a version, with a local label (PEP 440) if its content or folder is not fixed by the version."""
    if not _is_noted(metadata):
        return version
    from orun.environment.package_origin import build_label  # lazy: most come from an index

    build = build_label(metadata, development=development)
    return f"{version}{'.' if '+' in version else '+'}{build}" if build else version


def _is_noted(metadata: str) -> bool:
    """Return whether a distribution's installer recorded another origin than an index."""
    return os.path.exists(f"{metadata}/direct_url.json")  # noqa: PTH110 - for every distribution, in every run


def find(tool: str, packages: Mapping[str, str] | None = None) -> tuple[str, str] | None:
    """Return the name and version of a tool, or None when it is not installed.

    Args:
        tool: a distribution, or alternatives that exclude one another, joined by `|`. Any build of ONNX Runtime stands
            for `onnxruntime`.
        packages: versions by normalized name; the installed ones when None.
    """
    packages = list_exact() if packages is None else packages
    names = tool.split("|")
    for name in (*names, *(BUILDS if "onnxruntime" in names else ())):
        if version := packages.get(normalize(name)):
            return name, version
    return None
