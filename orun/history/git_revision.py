"""Git commit of a project, and files that differ from it.

The commit is read from git's own files, without a process.
"""

from __future__ import annotations

import hashlib
import posixpath
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from orun.fs.bounded_reads import RECORD_LIMIT, read_bounded

SHA1, SHA256 = 40, 64  # hexadecimal digits of an id
HEX = frozenset("0123456789abcdef")
SECONDS = 5  # timeout of git, which is slow on network disks


def read_commit(folder: Path) -> str:
    """Return the commit that is checked out around a folder; empty without one, or if its format is unknown."""
    with suppress(OSError, ValueError):
        for top in (folder, *folder.parents):
            if (path := top / ".git").exists():
                # In worktrees and submodules, a file names the folder of the repository.
                commit = _read_head(path if path.is_dir() else top / _read_text(path).removeprefix("gitdir: "))
                return commit if len(commit) in (SHA1, SHA256) and HEX.issuperset(commit) else ""
    return ""


def _read_head(repository: Path) -> str:
    head = _read_text(repository / "HEAD")
    if not head.startswith("ref: "):
        return head
    name, common = head.removeprefix("ref: "), repository
    if (repository / "commondir").is_file():
        common = repository / _read_text(repository / "commondir")
    if (common / name).is_file():
        return _read_text(common / name)
    packed = (line.split(" ", 1) for line in _read_text(common / "packed-refs").splitlines())
    return next((line[0] for line in packed if line[-1] == name), "")


def _read_text(path: Path) -> str:
    return read_bounded(path, RECORD_LIMIT).decode("utf-8").strip()


def list_edited(folder: Path, commit: str, contents: Mapping[str, bytes]) -> tuple[str, ...] | None:
    """Return the files that differ from a commit, or are not in it.

    The work tree is not read: the contents are compared with the ids of the files in the commit.

    `contents` has them by their paths from the folder.

    Returns:
        Their names, sorted; None if git is missing, does not have the commit, or takes too long.
    """
    contents = {posixpath.normpath(name): content for name, content in contents.items()}
    if not contents:
        return ()
    listed = run_git(folder, "ls-tree", "-z", commit, "--", *sorted(contents))
    if listed is None:
        return None
    rows = (row.split("\t", 1) for row in listed.split("\0") if row)
    ids = {name: entry.split()[-1] for entry, name in rows}
    return tuple(name for name, content in sorted(contents.items()) if _differs(folder, name, content, ids.get(name)))


def _differs(folder: Path, name: str, content: bytes, blob: str | None) -> bool:
    """Return whether a content differs from that of a blob; a file without a blob is not in the commit."""
    if blob is None:
        return True
    hasher = hashlib.sha256 if len(blob) == SHA256 else hashlib.sha1
    if hasher(b"blob %d\0%b" % (len(content), content)).hexdigest() == blob:
        return False
    # Git converts line endings and applies filters: its blob may differ from an unedited file.
    return run_git(folder, "hash-object", "--stdin", f"--path={name}", stdin=content) != blob


def run_git(folder: Path, *arguments: str, stdin: bytes = b"") -> str | None:
    """Return the output of git in a folder; None if it fails, is missing, or takes too long."""
    command = ["git", "--literal-pathspecs", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if done.returncode else done.stdout.decode(errors="surrogateescape").strip("\n")
