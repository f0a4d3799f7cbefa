"""Implicit dependencies: what a stage read without declaring it, checked before its result is reused.

As with the dependency file of a compiler, the first run finds out and every later one checks.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping
from pathlib import Path

from orun.environment import distributions
from orun.environment.call_cache import once
from orun.environment.secret_variables import SECRET, Secrets
from orun.errors import InputChanged
from orun.fs.observed_state import (
    ABSENT,
    FIRST,
    NOT_FIRST,
    appearance_as,
    listing_digest,
    portable_name,
    project_of,
    tells_more,
    was_absent,
)
from orun.fs.os_errors import to_store_error
from orun.store import Discovered, Signature, StatCache

# What says nothing of the file itself: of a full disk the cache of a file system over a network tells a reader, too.
FAILING = (
    errno.EIO, errno.ESTALE, errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE,
)  # fmt: skip


def changes(
    discovered: Discovered, root: Path, files: StatCache, secrets: Secrets, packages: Mapping[str, str] | None = None
) -> list[str]:
    """What differs now from what a stage found when it ran, as sentences; empty when its result still holds.

    Args:
        discovered: what it found.
        root: the pipeline's folder, which relative paths start from.
        files: digests of files.
        secrets: the variables whose values do not count.
        packages: versions by normalised name of what it runs with; of what orun runs with when None.
    """
    now = standing(discovered, root, files, secrets, packages)
    pairs = ((name, old, now.files[name]) for name, old in discovered.files.items())
    found = [f"{name} {_event(old, new)} (read by the stage)" for name, old, new in pairs if old != new]
    found += [
        f"folder {name} has other files now (listed by the stage)"
        for name, old in discovered.folders.items()
        if now.folders[name] != old
    ]
    found += [
        f"package {name}: {old} -> {now.packages[name]} (imported by the stage)"
        for name, old in discovered.packages.items()
        if now.packages[name] != old
    ]
    found += [
        f"environment variable {name} {_variable_event(old, now.environment[name])} (read by the stage)"
        for name, old in discovered.environment.items()
        if now.environment[name] != old
    ]
    pairs = ((name, old, now.probed[name]) for name, old in discovered.probed.items())
    found += [_asked(name, old, new) for name, old, new in pairs if old != new]
    return found


def standing(
    discovered: Discovered, root: Path, files: StatCache, secrets: Secrets, packages: Mapping[str, str] | None = None
) -> Discovered:
    """How things stand now that a stage found when it ran; takes what `changes` takes."""
    if packages is None:
        packages = versions(root) if discovered.packages else {}
    return Discovered(
        files={name: digest_now(root / name, files) for name in discovered.files},
        folders={name: listing_digest(root / name) for name in discovered.folders},
        packages={name: packages.get(name, distributions.ABSENT) for name in discovered.packages},
        environment={name: secrets.state_now(name) for name in discovered.environment},
        probed={name: appearance_as(told, root / name) for name, told in discovered.probed.items()},
    )


@once
def versions(root: Path) -> Mapping[str, str]:
    """Return `tools.exact` for a project, and `tools.PRESENT` for installed modules of other names.

    What is developed in the project itself has its plain version, wherever the project is.

    Args:
        root: the pipeline's folder.
    """
    found = {**dict.fromkeys(distributions.modules(), distributions.PRESENT), **distributions.exact()}
    if distributions.developed():
        project = project_of(root).resolve()
        own = [
            name for name, folder in distributions.developed().items() if Path(folder).resolve().is_relative_to(project)
        ]
        found |= {name: distributions.installed()[name] for name in own}
    return found


def digest_now(path: Path, files: StatCache) -> str:
    """Digest of the content of a file as it is; `ABSENT` when it cannot be read.

    Raises:
        StoreError: when nothing is known of it, because the disk or this machine fails.
    """
    try:
        return files.digest_file(path)
    except OSError as error:
        if error.errno in FAILING:
            raise to_store_error(error, f"read {path}", path) from error
        return ABSENT  # it is not there, or no longer a file that can be read: either way not what the stage read


def _asked(name: str, old: str, new: str) -> str:
    if old.startswith((FIRST, NOT_FIRST)):
        return f"{name} is {new} now (used by the stage)"
    return f"{name} {_event(old, new)} (looked for by the stage)"


def _variable_event(old: str, new: str) -> str:
    if new == SECRET:
        return "is a secret now"
    return "is no secret any more" if old == SECRET else "changed"


def _event(old: str, new: str) -> str:
    if was_absent(old):
        return "has appeared"
    return "is gone" if was_absent(new) else "changed"


def collect_files(
    stage: str,
    reads: Mapping[str, Signature | None],
    root: Path,
    project: Path,
    files: StatCache,
) -> dict[str, str]:
    """Digests of the files that a stage opened, by the names they are remembered under.

    Args:
        stage: the stage's id, for errors.
        reads: absolute path -> signature when it was first opened, or None when it was not there.
        root: the pipeline's folder.
        project: files below it are remembered relative to `root`, so that the project can move.
        files: digests of files.

    Raises:
        InputChanged: when a file is no longer what it was when the stage opened it.
    """
    found: dict[str, str] = {}
    for name, signature in reads.items():
        path = Path(name)
        named = portable_name(path, root, project)
        if not files.is_same(path, signature, now := files.signature(path)):
            raise changed_meanwhile(stage, f"{named} was {'edited' if now else 'removed'}")
        found[named] = digest_now(path, files)
    return found


def changed_meanwhile(stage: str, what: str) -> InputChanged:
    """The error of a stage whose result belongs to no one version of its inputs."""
    return InputChanged(
        stage,
        f"{what} while {stage} ran",
        why="its result belongs to neither version, so nothing was stored",
        hint="run again",
    )


def never_at_rest(stage: str, changes: Iterable[str]) -> InputChanged:
    """The error of a stage that cannot begin, because what it depends on was another thing at each look."""
    return InputChanged(
        stage,
        f"what {stage} depends on changes all the time",
        why="; ".join(changes),
        hint="Wait for what writes to it, or name a folder that holds only what the stage needs",
    )


def carry_over(
    found: Discovered,
    earlier: Iterable[Discovered],
    root: Path,
    files: StatCache,
    secrets: Secrets,
    packages: Mapping[str, str],
) -> Discovered:
    """What a stage found, and how things stand that only earlier runs under the same key found.

    Not all that a stage asks is seen. A run that skipped a file because it was missing would else pass for up to date
    when the file comes back.

    Args:
        found: what this run found.
        earlier: what earlier runs found.
        root: the pipeline's folder.
        files: digests of files.
        secrets: the variables whose values do not count.
        packages: versions by normalised name of what it runs with.
    """
    for one in earlier:
        now = standing(one, root, files, secrets, packages)
        read = {**now.files, **found.files}
        probed = {name: told for name, told in now.probed.items() if name not in read or tells_more(told)}
        found = Discovered(
            files=read,
            folders={**now.folders, **found.folders},
            packages={**now.packages, **found.packages},
            environment={**now.environment, **found.environment},
            probed={**probed, **found.probed},
        )
    return found
