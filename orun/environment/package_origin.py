"""Origin of a distribution that was not installed from an index (PEP 610)."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import msgspec
from blake3 import blake3

NOTE = "direct_url.json"  # among the metadata of what was installed from a URL, a file, a repository or a folder
SHOWN = 16  # hexadecimal digits of a digest


class Repository(msgspec.Struct, frozen=True):
    """A commit that it was built from."""

    commit_id: str = ""


class Archive(msgspec.Struct, frozen=True):
    """A file that it was installed from: its digests, `hash` in the old form `sha256=...`."""

    hash: str = ""
    hashes: dict[str, str] = {}


class Folder(msgspec.Struct, frozen=True):
    """A folder that it was built from, or that it still is."""

    editable: bool = False


class Origin(msgspec.Struct, frozen=True):
    """Origin of an installed package, as its installer noted it."""

    url: str = ""
    vcs_info: Repository = Repository()
    archive_info: Archive = Archive()
    dir_info: Folder = Folder()


def label(metadata: str, *, development: bool = False) -> str:
    """`commit.`, `sha256.` or `files.` with the beginning of a digest; empty where a version has one content.

    Args:
        metadata: the folder with the metadata of the distribution, in which `NOTE` lies.
        development: tell what is installed in development by its folder (`editable.`).
    """
    origin = _origin(metadata)
    if origin.dir_info.editable:  # its files are watched as the user's
        return f"editable.{blake3(origin.url.encode()).hexdigest()[:SHOWN]}" if development else ""
    if origin.vcs_info.commit_id:
        return f"commit.{origin.vcs_info.commit_id[:SHOWN]}"
    name, _, digest = origin.archive_info.hash.partition("=")
    if digest := origin.archive_info.hashes.get("sha256", digest if name == "sha256" else ""):
        return f"sha256.{digest[:SHOWN]}"
    return f"files.{_content(Path(metadata))}"


def development(metadata: str) -> str:
    """Return the folder of a distribution in an editable install, else an empty text. Arguments as for `label`."""
    origin = _origin(metadata)
    return unquote(origin.url.removeprefix("file://")) if origin.dir_info.editable else ""


def _origin(metadata: str) -> Origin:
    try:
        return msgspec.json.decode(Path(metadata, NOTE).read_bytes(), type=Origin)
    except (OSError, msgspec.DecodeError):
        return Origin()


def _content(metadata: Path) -> str:
    """Return a digest of the digests of its files; metadata and scripts tell where it came from, and where it is."""
    try:
        lines = (metadata / "RECORD").read_text("utf-8", "replace").splitlines()
    except OSError:
        return "unknown"
    files = sorted(line for line in lines if ",sha256=" in line and not line.startswith((f"{metadata.name}/", "../")))
    return blake3("\n".join(files).encode()).hexdigest()[:SHOWN]
