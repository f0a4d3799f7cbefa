"""The records of the store as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from orun.core.key_component import ComponentKind, Components, KeyComponent
from orun.core.metrics import Metric
from orun.core.run_record import Trace
from orun.core.serialization import Record, field


class Entry(Record, frozen=True):
    """One file of a tree: posix path below its root, size in bytes, BLAKE3 digest, and whether it is executable."""

    path: str
    size: int
    digest: str
    executable: bool = False


class Tree(Record, frozen=True):
    """A folder by content. `digest` is that of its canonical manifest, which is an object itself."""

    digest: str
    entries: tuple[Entry, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.size for entry in self.entries)

    @property
    def objects(self) -> tuple[str, ...]:
        """The digests of its manifest and of all files."""
        return (self.digest, *(entry.digest for entry in self.entries))


class Discovered(Record, frozen=True):
    """What a stage read without declaring it; checked before its result is used again.

    Paths below the project are relative to the pipeline's folder, all others absolute.

    Attributes:
        files: path -> BLAKE3 digest; empty where the stage looked for a file that was not there.
        folders: path -> BLAKE3 digest of the sorted names in a folder that was listed.
        packages: distribution -> version of what the user's code imported.
        environment: variable -> value digest, empty when it was unset, or `secret`, of what the user's code looked up.
        probed: path -> `file` or `folder`, or empty where nothing was, of what was asked for without being opened; with
            its size, or where it links to, if that was asked (`orun.fs.observed_state.appearance`).
    """

    files: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    probed: Mapping[str, str] = field(default_factory=dict)

    @property
    def components(self) -> Components:
        """All of it as components."""
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


class Stray(Record, frozen=True):
    """A file of the project that a stage wrote beside its output.

    Attributes:
        how: `written`; `added`, when it was only ever opened to add to its end; or `missed`, when the stage had looked
            for it in vain, as one looks for what is made once.
        digest: BLAKE3 of what was left; empty for what was added to, which holds more each time.
    """

    how: How
    digest: str


class Action(Record, frozen=True):
    """A stage that was run: what went in, what came out.

    Attributes:
        key: the key it is stored under.
        components: the components of the key.
        discovered: what it read besides.
        tree: digest of its output tree.
        size: bytes of its output.
        metrics: what it measured.
        log: digest of its log.
        pipeline, stage: where it was run first.
        host: machine and device it was run on.
        started_at: seconds since the epoch.
        seconds, cpu_seconds: what it took.
        peak_memory: bytes of its largest process.
        others: digests of other trees that the same inputs have made: the stage is not deterministic.
        wrote: what it left beside its output in the project, by path.
        notes: what it said of its result, a sentence each.
        trace: how much of what it read was seen: `full`, or `python` where the files that native code and other
            programs opened were not; None in the record of an orun that did not say so.
    """

    key: str
    components: Components
    discovered: Discovered
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
    others: tuple[str, ...] = ()
    wrote: Mapping[str, Stray] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    trace: Trace | None = None

    @property
    def inputs(self) -> Components:
        """All that its result depends on: the components of its key, and its implicit dependencies."""
        return (*self.components, *self.discovered.components)
