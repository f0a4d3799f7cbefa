"""Manifest of a release bundle.

`manifest.json` lists every other file of the folder with its size, BLAKE3 and SHA-256. It also holds the digest of its
own content. It reveals damage and mistakes; to prove who made a bundle, sign the manifest.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from blake3 import blake3

from orun.core.serialization import parse_foreign_json
from orun.fs.bounded_reads import RECORD_LIMIT, read_bounded
from orun.stages.contract import MODEL

FORMAT = 1
MANIFEST = "manifest.json"
PUBLISHING = ".orun-publishing.json"  # beside the files while a bundle is published; part of no bundle
PROVENANCE = "provenance.json"
MEASUREMENTS = "measurements.json"
REFERENCE = "reference.json"
REQUIRED = (MODEL, PROVENANCE, MEASUREMENTS)
FIELDS = {"path": str, "size": int, "blake3": str, "sha256": str}  # of a file in the manifest
CHUNK = 1 << 20
A_LINK = "is a link, but a bundle holds only files"


def write_manifest(folder: Path, name: str, version: str, requires: Mapping[str, str] | None = None) -> None:
    """Write `manifest.json` with all files of the folder."""
    files = [_describe_file(folder, path) for path in _list_files(folder)]
    content: dict[str, Any] = {"format": FORMAT, "name": name, "version": version, "files": files}
    if requires:
        content["requires"] = dict(requires)
    write_json(folder / MANIFEST, content | {"digest": _compute_digest(content)})


def write_json(path: Path, data: object) -> None:
    """Write data as indented JSON; equal data yield equal bytes."""
    path.write_bytes(json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False).encode() + b"\n")


def verify_bundle(folder: Path) -> list[str]:
    """Return every difference of a bundle from its manifest, a sentence each; an empty list if there is none.

    The kind and size of each file are checked before it is read.
    """
    if (folder / MANIFEST).is_symlink():
        return [f"{MANIFEST} {A_LINK}"]
    try:
        manifest = parse_foreign_json(read_bounded(folder / MANIFEST, RECORD_LIMIT))
    except OSError as error:
        if (folder / PUBLISHING).exists():
            return [f"{MANIFEST} is missing: publishing is still running, or was interrupted"]
        return [f"{MANIFEST} cannot be read, so this is not a bundle: {error.strerror}"]
    except ValueError as error:
        return [f"{MANIFEST} is damaged: {error}"]
    if not isinstance(manifest, dict) or not isinstance(manifest.get("format"), int):
        return [f"{MANIFEST} is damaged: it has no format"]
    if manifest["format"] != FORMAT:
        return [f"{MANIFEST} has format {manifest['format']}, and this orun knows {FORMAT}"]
    content = {key: value for key, value in manifest.items() if key != "digest"}
    if manifest.get("digest") != _compute_digest(content):
        return [f"{MANIFEST} was changed: its digest does not match its content"]
    listed = _read_entries(content.get("files"))
    if listed is None:
        return [f"{MANIFEST} is damaged: its list of files is invalid"]
    return list(_iter_differences(folder, listed))


def parse_release(manifest: bytes) -> tuple[str, str] | None:
    """Return the name and version in a `manifest.json`; None if it has no version or is not a manifest."""
    try:
        content = parse_foreign_json(manifest)
    except ValueError:
        return None
    if not isinstance(content, dict) or not isinstance(content.get("format"), int):
        return None
    name, version = content.get("name"), content.get("version")
    return (name, version) if isinstance(name, str) and isinstance(version, str) and version else None


def list_requirements(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return the packages that sessions need beside ONNX Runtime, with their versions, by a whole manifest."""
    requires = manifest.get("requires")
    return {str(name): str(version) for name, version in requires.items()} if isinstance(requires, dict) else {}


def _read_entries(files: object) -> dict[str, Mapping[str, Any]] | None:
    """Return the entries by their paths; None if `write_manifest` would not write such a list."""
    if not isinstance(files, list) or not all(isinstance(entry, dict) for entry in files):
        return None
    if any({name: type(value) for name, value in entry.items()} != FIELDS for entry in files):
        return None
    listed = {entry["path"]: entry for entry in files}
    return listed if len(listed) == len(files) else None


def _iter_differences(folder: Path, listed: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name in REQUIRED:
        if name not in listed:
            yield f"{name} is not in the manifest"
    present = _list_files(folder)
    for path in sorted({*listed, *present}):
        if path not in listed:
            yield f"{path} is not in the manifest"
        elif path not in present:
            yield f"{path} is in the manifest, but missing"
        else:
            yield from _iter_changes(folder, path, listed[path])


def _iter_changes(folder: Path, path: str, listed: Mapping[str, Any]) -> Iterator[str]:
    try:
        problem = _find_problem((folder / path).lstat(), listed["size"])
        actual = {} if problem else _describe_file(folder, path)
    except OSError as error:
        yield f"{path} cannot be read: {error.strerror}"
        return
    if problem:
        yield f"{path} {problem}"
        return
    for name, shown in (("blake3", "BLAKE3"), ("sha256", "SHA-256")):
        if actual[name] != listed[name]:
            yield f"{path} was changed: its {shown} is {actual[name]} instead of {listed[name]}"


def _find_problem(status: os.stat_result, size: int) -> str:
    """Return how a file differs from the listed one in kind or size, without reading it; empty if it does not."""
    if stat.S_ISLNK(status.st_mode):
        return A_LINK
    if not stat.S_ISREG(status.st_mode):
        return "is a pipe, a socket or a device, but a bundle holds only files"
    return "" if status.st_size == size else f"has {status.st_size} bytes instead of {size}"


def _list_files(folder: Path) -> list[str]:
    """Return the paths of everything below the folder except folders, the manifest and a publisher's note."""
    paths: list[str] = []
    for parent, folders, names in os.walk(folder):
        links = [name for name in folders if Path(parent, name).is_symlink()]
        paths += [Path(parent, name).relative_to(folder).as_posix() for name in (*names, *links)]
    return sorted(path for path in paths if path not in (MANIFEST, PUBLISHING))


def _describe_file(folder: Path, path: str) -> dict[str, Any]:
    blake, sha, size = blake3(), hashlib.sha256(), 0
    with (folder / path).open("rb") as file:
        while chunk := file.read(CHUNK):
            blake.update(chunk)
            sha.update(chunk)
            size += len(chunk)
    return {"path": path, "size": size, "blake3": blake.hexdigest(), "sha256": sha.hexdigest()}


def _compute_digest(content: object) -> str:
    return blake3(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
