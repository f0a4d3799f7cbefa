"""Implicit dependencies: what a stage read without declaring it, checked before its result is reused.

They work like the dependency files of a compiler: the first run records them and every later run checks them.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping
from pathlib import Path

from orun.core.component_kinds import ComponentKind
from orun.core.reason import Reason, build_reason
from orun.core.reason_codes import CHANGED
from orun.environment import distributions
from orun.environment.call_cache import cache_calls
from orun.environment.secret_variables import Secrets
from orun.errors import InputChanged
from orun.fs.observed_state import (
    ABSENT,
    FIRST,
    LIBRARIES,
    NOT_FIRST,
    PROGRAMS,
    digest_listing,
    find_project,
    observe_same_details,
    tells_more,
    to_portable_name,
    was_absent,
)
from orun.fs.os_errors import SHORTAGES, to_store_error
from orun.fs.signatures import Signature, read_signature
from orun.store import ImplicitDependencies, StatCache

# Errors of the machine, not of the file. A network file system reports a full disk of its cache to readers, too.
FAILING = (errno.EIO, errno.ESTALE, *SHORTAGES)
# Appearances of a program or library: whether it is the first of its name in the folders of a variable.
SEARCH_RESULTS = frozenset(f"{place}{variable}" for place in (FIRST, NOT_FIRST) for variable in (PROGRAMS, LIBRARIES))


def list_changes(dependencies: ImplicitDependencies, now: ImplicitDependencies) -> list[Reason]:
    """Return what differs now from what a stage saw when it ran; empty when its result still holds."""
    new = {item.identity: item.value for item in now.components}
    return [
        build_change(item.kind, item.subject, item.value, value)
        for item in dependencies.components
        if (value := new[item.identity]) != item.value
    ]


def build_change(kind: str, subject: str, old: str | None, new: str | None) -> Reason:
    """Return the reason for a difference in what a stage was seen to use."""
    return build_reason(
        CHANGED[kind], subject=subject, old=old, new=new, event=_name_event(kind, old or ABSENT, new or ABSENT)
    )


def observe_state(
    dependencies: ImplicitDependencies,
    root: Path,
    files: StatCache,
    secrets: Secrets,
    packages: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
) -> ImplicitDependencies:
    """Return the present state of what a stage saw when it ran.

    Where `packages` or `variables` is None, those of this process count.
    """
    if packages is None:
        packages = read_package_versions(root) if dependencies.packages else {}
    return ImplicitDependencies(
        files={name: digest_current(root / name, files) for name in dependencies.files},
        folders={name: digest_listing(root / name) for name in dependencies.folders},
        packages={name: packages.get(name, distributions.ABSENT) for name in dependencies.packages},
        environment={
            name: secrets.read_state(name)
            if variables is None
            else variables.get(name, secrets.compute_state(name, None))
            for name in dependencies.environment
        },
        probed={name: observe_same_details(seen, root / name) for name, seen in dependencies.probed.items()},
    )


@cache_calls
def read_package_versions(root: Path) -> Mapping[str, str]:
    """Return `distributions.list_exact` for a project, and `distributions.PRESENT` for other installed modules.

    A package that is developed in the project itself has its plain version, wherever the project is.
    """
    versions = {**dict.fromkeys(distributions.list_modules(), distributions.PRESENT), **distributions.list_exact()}
    if distributions.list_developed():
        project = find_project(root).resolve()
        own = [
            name
            for name, folder in distributions.list_developed().items()
            if Path(folder).resolve().is_relative_to(project)
        ]
        versions |= {name: distributions.list_installed()[name] for name in own}
    return versions


def digest_current(path: Path, files: StatCache) -> str:
    """Return the digest of a file's content; `ABSENT` when it cannot be read.

    Raises:
        StoreError: when the disk or this machine fails, so that nothing is known of the file.
    """
    try:
        return files.digest_file(path)
    except OSError as error:
        if error.errno in FAILING:
            raise to_store_error(error, f"read {path}", path) from error
        return ABSENT  # gone or unreadable: either way not what the stage read


def _name_event(kind: str, old: str, new: str) -> str | None:
    """Return what happened to a file that a stage used; None for what is no file."""
    if kind not in (ComponentKind.READ, ComponentKind.LOOKED_FOR):
        return None
    if old in SEARCH_RESULTS:
        return "moved"
    if was_absent(old):
        return "appeared"
    return "gone" if was_absent(new) else "changed"


def collect_files(
    stage: str,
    reads: Mapping[str, Signature | None],
    root: Path,
    project: Path,
    files: StatCache,
) -> dict[str, str]:
    """Return the digests of the files that a stage opened, by the names under which they are stored.

    `reads` has the signature of each file when it was first opened; None when it was missing.

    Raises:
        InputChanged: when a file changed after the stage opened it.
    """
    digests: dict[str, str] = {}
    for name, signature in reads.items():
        path = Path(name)
        stored_name = to_portable_name(path, root, project)
        if not files.is_same(path, signature, now := read_signature(path)):
            raise build_changed_error(stage, f"{stored_name} was {'edited' if now else 'removed'}")
        digests[stored_name] = digest_current(path, files)
    return digests


def build_changed_error(stage: str, change: str) -> InputChanged:
    """Return the error of a stage whose input changed while it ran; `change` is a clause: `data.txt was edited`."""
    return InputChanged(
        stage,
        f"{change} while {stage} ran",
        why="its result belongs to neither version, so nothing was stored",
        hint="run again",
    )


def build_changing_error(stage: str, changes: Iterable[Reason]) -> InputChanged:
    """Return the error of a stage that cannot begin, because its inputs changed at each look."""
    subjects = [str(change.arguments.get("subject", change.code)) for change in changes]
    return InputChanged(
        stage,
        f"what {stage} depends on changes all the time",
        why=f"it changed at each look: {', '.join(subjects)}",
        hint="Wait for what writes to it, or name a folder that holds only what the stage needs",
    )


def carry_over(
    dependencies: ImplicitDependencies,
    earlier: Iterable[ImplicitDependencies],
    root: Path,
    files: StatCache,
    secrets: Secrets,
    packages: Mapping[str, str],
) -> ImplicitDependencies:
    """Merge dependencies seen only by earlier runs of this key into those of this run, in their present state.

    Not all that a stage looks for is seen. Otherwise a run that skipped a missing file would stay up to date when the
    file comes back.
    """
    for run in earlier:
        now = observe_state(run, root, files, secrets, packages)
        read = {**now.files, **dependencies.files}
        probed = {name: seen for name, seen in now.probed.items() if name not in read or tells_more(seen)}
        dependencies = ImplicitDependencies(
            files=read,
            folders={**now.folders, **dependencies.folders},
            packages={**now.packages, **dependencies.packages},
            environment={**now.environment, **dependencies.environment},
            probed={**probed, **dependencies.probed},
        )
    return dependencies
