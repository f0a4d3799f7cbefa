"""Commits between two runs that touch what differs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from orun.blame.changes import Change
from orun.blame.run_snapshot import Side
from orun.history.git_revision import git

SHOWN = 10
UNSHALLOW = ", a shallow clone: `git fetch --unshallow` gets the rest"


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
    notes = [note for side in (good, bad) if (note := _edited(side))]
    if old == new:
        return Between(note="; ".join((f"both runs were made at {old[:10]}", *notes)))
    said = git(root, "log", "--reverse", "--format=%h %s", f"{old}..{new}", "--", *files) if files else ""
    if said is None:
        shallow = git(root, "rev-parse", "--is-shallow-repository") == "true"
        missing = f"git does not have {old[:10]}..{new[:10]} here{UNSHALLOW if shallow else ''}"
        return Between(note="; ".join((missing, *notes)))
    lines = said.splitlines()
    if git(root, "merge-base", "--is-ancestor", old, new) is None:
        notes.append(f"{old[:10]} does not lead to {new[:10]}: what only the former has is not listed")
    return Between(tuple(lines[:SHOWN]), max(0, len(lines) - SHOWN), "; ".join(notes))


def _files(good: Side, bad: Side, causes: Collection[Change]) -> set[str]:
    """Paths from the pipeline's folder."""
    found = {one.name for one in causes if one.sort == "file"}
    if any(one.sort not in ("file", "package", "variable") for one in causes):
        found |= {name for side in (good, bad) for name in side.files.keys() - side.code.keys()}
    return found


def _edited(side: Side) -> str:
    """What of a run was not committed, as a sentence."""
    names = side.record.edited or ()
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{side.run} had changes that were not committed: {', '.join(names[:SHOWN])}{more}" if names else ""
