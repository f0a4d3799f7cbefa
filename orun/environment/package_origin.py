"""Origin of a distribution that was not installed from an index (PEP 610)."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import msgspec
from blake3 import blake3

NOTE = "direct_url.json"  # metadata of a distribution installed from a URL, file, repository or folder
SHOWN = 16  # hexadecimal digits of a digest


class Repository(msgspec.Struct, frozen=True):
    """Commit that a distribution was built from."""

    vcs: str = ""
    commit_id: str = ""


class Archive(msgspec.Struct, frozen=True):
    """Digests of the file that a distribution was installed from; `hash` is the old form, `sha256=...`."""

    hash: str = ""
    hashes: dict[str, str] = {}


class Folder(msgspec.Struct, frozen=True):
    """Folder that a distribution was built from; an editable install still runs from it."""

    editable: bool = False


class Origin(msgspec.Struct, frozen=True):
    """Origin of an installed distribution, as its installer recorded it."""

    url: str = ""
    vcs_info: Repository = Repository()
    archive_info: Archive = Archive()
    dir_info: Folder | None = None

    @property
    def folder(self) -> str:
        """The folder that it was built from; empty if it came from elsewhere."""
        return unquote(self.url.removeprefix("file://")) if self.dir_info else ""

    @property
    def is_editable(self) -> bool:
        """Whether it still runs from that folder."""
        return self.dir_info is not None and self.dir_info.editable


def build_label(metadata: str, *, development: bool = False) -> str:
    """Return `commit.`, `sha256.` or `files.` with the beginning of a digest; empty if the version fixes the content.

    Args:
        metadata: folder of the distribution's metadata, which holds `NOTE`.
        development: whether to label an editable install by its folder (`editable.`).
    """
    origin = read_origin(metadata)
    if origin.is_editable:  # its files are watched like the user's own
        return f"editable.{blake3(origin.url.encode()).hexdigest()[:SHOWN]}" if development else ""
    if origin.vcs_info.commit_id:
        return f"commit.{origin.vcs_info.commit_id[:SHOWN]}"
    name, _, digest = origin.archive_info.hash.partition("=")
    if digest := origin.archive_info.hashes.get("sha256", digest if name == "sha256" else ""):
        return f"sha256.{digest[:SHOWN]}"
    return f"files.{_digest_content(Path(metadata))}"


def find_development_folder(metadata: str) -> str:
    """Return the source folder of an editable install, else an empty text. Arguments as for `build_label`."""
    origin = read_origin(metadata)
    return origin.folder if origin.is_editable else ""


def read_origin(metadata: str) -> Origin:
    """Return where a distribution came from; empty if it came from an index. Arguments as for `build_label`."""
    try:
        return msgspec.json.decode(Path(metadata, NOTE).read_bytes(), type=Origin)
    except (OSError, msgspec.DecodeError):
        return Origin()


def _digest_content(metadata: Path) -> str:
    """Return a digest of the digests of its files, without metadata and scripts, which depend on the folder."""
    try:
        lines = (metadata / "RECORD").read_text("utf-8", "replace").splitlines()
    except OSError:
        return "unknown"
    files = sorted(line for line in lines if ",sha256=" in line and not line.startswith((f"{metadata.name}/", "../")))
    return blake3("\n".join(files).encode()).hexdigest()[:SHOWN]
