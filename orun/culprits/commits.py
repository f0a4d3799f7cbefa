"""The commits between two runs, as far as they touch what differs."""

from __future__ import annotations

import subprocess
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from orun import sources
from orun.culprits.changes import Change
from orun.culprits.sides import Side

SECONDS = 30
SHOWN = 10


@dataclass(frozen=True)
class Between:
    """What git knows of the way from one run to another.

    Attributes:
        commits: that touch the files of the changes, the oldest first: short id and subject; at most ten.
        more: further ones.
        note: what else is to be known, as a sentence; empty when nothing is.
    """

    commits: tuple[str, ...] = ()
    more: int = 0
    note: str = ""


def between(good: Side, bad: Side, causes: Collection[Change]) -> Between:
    """The commits that touch the files of some changes; of parameters, targets and stages that is the pipeline file.

    Nothing where a run recorded no commit, or git or the repository is not here any more.
    """
    old, new, root = good.record.commit, bad.record.commit, Path(bad.record.file).parent
    if not old or not new:
        return Between()
    files = sorted(_files(good, bad, causes))
    edited = [name for side in (good, bad) if (name := _edited(side, root))]
    notes = [f"{name} had changes that were not committed" for name in edited]
    if old == new:
        return Between(note="; ".join((f"both runs were made at {old[:10]}", *notes)))
    said = _git(root, "log", "--reverse", "--format=%h %s", f"{old}..{new}", "--", *files) if files else ""
    if said is None:
        return Between(note="; ".join((f"git does not have {old[:10]}..{new[:10]} here", *notes)))
    lines = said.splitlines()
    if _git(root, "merge-base", "--is-ancestor", old, new) is None:
        notes.append(f"{old[:10]} does not lead to {new[:10]}: what only the former has is not listed")
    return Between(tuple(lines[:SHOWN]), max(0, len(lines) - SHOWN), "; ".join(notes))


def _files(good: Side, bad: Side, causes: Collection[Change]) -> set[str]:
    """Paths from the pipeline's folder."""
    found = {one.name for one in causes if one.sort == "file"}
    if any(one.sort not in ("file", "package") for one in causes):
        found |= {name for side in (good, bad) for name in side.files.keys() - side.code.keys()}
    return found


def _edited(side: Side, root: Path) -> str:
    """The run's id when a file of it is not as in its commit."""
    for name, digest in side.files.items():
        kept = sources.content(side.record, digest)
        there = _git(root, "rev-parse", "--verify", "-q", f"{side.record.commit}:./{name}")
        if kept is not None and there is not None and there != _git(root, "hash-object", "--stdin", text=kept):
            return side.run
        if kept is not None and there is None and _git(root, "cat-file", "-e", side.record.commit) is not None:
            return side.run
    return ""


def _git(root: Path, *words: str, text: bytes | None = None) -> str | None:
    """What git says; None when it fails or is not there."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *words], input=text or b"", capture_output=True, check=False, timeout=SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if done.returncode else done.stdout.decode(errors="replace").strip()
