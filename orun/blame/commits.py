"""Commits between two runs that touch the files of the changes."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from orun.blame.changes import Change
from orun.blame.run_snapshot import RunSnapshot
from orun.history.git_revision import run_git
from orun.text.lists import join_few

SHOWN = 10
UNSHALLOW = ", a shallow clone: `git fetch --unshallow` gets the rest"


@dataclass(frozen=True)
class CommitList:
    """Commits from one run to another."""

    commits: tuple[str, ...] = ()  # short id and subject, the oldest first; at most ten
    more: int = 0  # number of commits left out
    note: str = ""  # a remark; else empty


def list_commits(good: RunSnapshot, bad: RunSnapshot, causes: Collection[Change]) -> CommitList:
    """Return the commits that touch the files of the changes; for parameters, targets and stages the pipeline files.

    For parameters alone these are the commits that touch a line with the name or a value of one. The list is empty if a
    run recorded no commit, or git or the repository is missing.
    """
    old, new, root = good.record.commit, bad.record.commit, Path(bad.record.file).parent
    if not old or not new:
        return CommitList()
    files = sorted(_list_files(good, bad, causes))
    notes = [note for run in (good, bad) if (note := _note_uncommitted(run))]
    if old == new:
        return CommitList(note="; ".join((f"both runs were made at {old[:10]}", *notes)))
    log = _log(root, f"{old}..{new}", files, causes) if files else ""
    if log is None:
        shallow = run_git(root, "rev-parse", "--is-shallow-repository") == "true"
        missing = f"git does not have {old[:10]}..{new[:10]} here{UNSHALLOW if shallow else ''}"
        return CommitList(note="; ".join((missing, *notes)))
    lines = log.splitlines()
    if run_git(root, "merge-base", "--is-ancestor", old, new) is None:
        notes.append(f"{old[:10]} is no ancestor of {new[:10]}: commits of only the former are not listed")
    return CommitList(tuple(lines[:SHOWN]), max(0, len(lines) - SHOWN), "; ".join(notes))


def _log(root: Path, commits: str, files: Sequence[str], causes: Collection[Change]) -> str | None:
    """Return id and subject of the commits that touch the causes, or the files if git finds none of the causes."""
    options, paths = ("log", "--reverse", "--format=%h %s"), ("--", *files)
    pattern = _build_pattern(causes)
    touching = run_git(root, *options, f"-G{pattern}", commits, *paths) if pattern else None
    return touching or run_git(root, *options, commits, *paths)


def _build_pattern(causes: Collection[Change]) -> str:
    """Return the regular expression of the lines of parameters; empty if their lines cannot be told.

    Such a line has the name, or a value that is written elsewhere, as in `vars`. Lists, mappings and sentences may take
    several lines, which need have neither.
    """
    texts: set[str] = set()
    for change in causes:
        if change.sort != "parameter":
            return ""
        texts.add(change.parameter)
        for value in (json.loads(change.old), json.loads(change.new)):
            if isinstance(value, list | dict) or len(str(value).split()) > 1:
                return ""
            texts.add(value if isinstance(value, str) else json.dumps(value))
    escaped = "|".join(re.sub(r"[][\\.*^$+?(){}|]", r"\\\g<0>", text) for text in sorted(texts) if text)
    return f"(^|[^[:alnum:]_])({escaped})([^[:alnum:]_]|$)"


def _list_files(good: RunSnapshot, bad: RunSnapshot, causes: Collection[Change]) -> set[str]:
    """Return the files of the changes, relative to the pipeline's folder."""
    files = {change.name for change in causes if change.sort == "file"}
    if any(change.sort not in ("file", "package", "variable") for change in causes):
        files |= {name for run in (good, bad) for name in run.files.keys() - run.code.keys()}
    return files


def _note_uncommitted(run: RunSnapshot) -> str:
    """Name the files of a run that were not committed; empty if there are none."""
    names = run.record.edited or ()
    return f"{run.run} had uncommitted changes: {join_few(names, SHOWN)}" if names else ""
