"""Records of the store, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

from orun.core.component_kinds import ComponentKind
from orun.core.key_component import Components, KeyComponent
from orun.core.metrics import Metric
from orun.core.run_record import Trace
from orun.core.serialization import Record, field


class Entry(Record, frozen=True):
    """A file of a tree: posix path in it, size in bytes, BLAKE3 digest, and whether it is executable."""

    path: str
    size: int
    digest: str
    executable: bool = False


class Tree(Record, frozen=True):
    """A folder by content. `digest` is that of its canonical list of files, which is an object itself."""

    digest: str
    entries: tuple[Entry, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.size for entry in self.entries)

    @property
    def objects(self) -> tuple[str, ...]:
        """The digests of its list of files and of all files."""
        return (self.digest, *(entry.digest for entry in self.entries))


class ImplicitDependencies(Record, frozen=True):
    """Implicit dependencies of a stage, checked before its result is used again.

    Paths in the project are relative to the pipeline's folder, all others absolute.

    Attributes:
        files: files that were read: path -> BLAKE3 digest; empty for a file that was missing.
        folders: folders that were listed: path -> BLAKE3 digest of the sorted names.
        packages: packages that the user's code imported: distribution -> version.
        environment: variables that the user's code looked up: name -> digest of the value, empty if unset, or `secret`.
        probed: paths that were looked at without being opened: path -> `file`, `folder` or empty, with size or link
            target if the stage asked for it (`orun.fs.observed_state.observe_appearance`).
    """

    files: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    probed: Mapping[str, str] = field(default_factory=dict)

    @property
    def components(self) -> Components:
        """All dependencies as components."""
        kinds = {
            ComponentKind.READ: self.files,
            ComponentKind.LISTED: self.folders,
            ComponentKind.IMPORTED: self.packages,
            ComponentKind.LOOKED_UP: self.environment,
            ComponentKind.LOOKED_FOR: self.probed,
        }
        return tuple(
            KeyComponent(kind, name, "", value) for kind, seen in kinds.items() for name, value in seen.items()
        )


How = Literal["written", "added", "missed"]


class UndeclaredWrite(Record, frozen=True):
    """An undeclared write: a file of the project that a stage wrote beside its output.

    Attributes:
        how: `written`; `added` if the stage only appended to it; or `missed` if the stage looked for it before and did
            not find it, as for a file that is made once.
        digest: BLAKE3 of its content; empty for `added`, whose content grows each time.
    """

    how: How
    digest: str


class Action(Record, frozen=True):
    """Result of a stage: what went in, what came out.

    Attributes:
        key: cache key.
        components: the components of the key.
        implicit_deps: implicit dependencies.
        tree: digest of the output tree.
        size: bytes of the output.
        metrics: its measurements.
        log: digest of its log.
        pipeline, stage: where it ran first.
        host: machine and device on which it ran.
        started_at: seconds since the epoch.
        seconds, cpu_seconds: wall and CPU time.
        peak_memory: bytes of its largest process.
        other_trees: digests of other trees from the same inputs, of a stage that is not deterministic.
        wrote: undeclared writes, by path.
        notes: notes on the result, one sentence each.
        trace: `full`, or `python` if files that native code and other programs opened were not seen; None in the
            record of an orun that did not record it.
    """

    key: str
    components: Components
    implicit_deps: ImplicitDependencies
    tree: str
    size: int
    metrics: Mapping[str, Metric]
    log: str
    pipeline: str
    stage: str
    host: Mapping[str, str]
    started_at: float
    seconds: float
    cpu_seconds: float
    peak_memory: int
    other_trees: tuple[str, ...] = ()
    wrote: Mapping[str, UndeclaredWrite] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    trace: Trace | None = None

    @property
    def inputs(self) -> Components:
        """All that its result depends on: the components of its key, and its implicit dependencies."""
        return (*self.components, *self.implicit_deps.components)


class ActionSet(Protocol):
    """Results of stages, to be asked whether one is among them."""

    def __contains__(self, action: Action, /) -> bool:
        """Return whether a result is among them."""
