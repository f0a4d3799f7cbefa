"""The commit that a project is at, read from git's own files: no process is started for it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

LENGTHS = (40, 64)  # hexadecimal digits of SHA-1 and SHA-256
HEX = frozenset("0123456789abcdef")


def commit_of(folder: Path) -> str:
    """The commit that is checked out around a folder; empty where there is none, or git keeps it another way."""
    with suppress(OSError, UnicodeDecodeError):
        for top in (folder, *folder.parents):
            if (top / ".git").exists():
                found = _head(_repository(top / ".git"))
                return found if len(found) in LENGTHS and HEX.issuperset(found) else ""
    return ""


def _repository(path: Path) -> Path:
    """The folder of a repository; in a worktree and a submodule a file names it."""
    if path.is_dir():
        return path
    return path.parent / path.read_text("utf-8").strip().removeprefix("gitdir: ")


def _head(repository: Path) -> str:
    said = (repository / "HEAD").read_text("utf-8").strip()
    if not said.startswith("ref: "):
        return said
    name, common = said.removeprefix("ref: "), repository
    if (repository / "commondir").is_file():
        common = repository / (repository / "commondir").read_text("utf-8").strip()
    if (common / name).is_file():
        return (common / name).read_text("utf-8").strip()
    packed = (line.split(" ", 1) for line in (common / "packed-refs").read_text("utf-8").splitlines())
    return next((one[0] for one in packed if one[-1] == name), "")
