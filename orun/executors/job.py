"""The executor protocol: a job, its result, and the contract with the runner, as plain data."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Literal, Protocol

from orun.core.metrics import Metric
from orun.core.serialization import Record, field
from orun.core.targets import Interpreter, Target
from orun.errors import StageError
from orun.stages.contract import Spec
from orun.store.records import How

# Of the interpreters of stages: they find no modules where they happen to start, and read texts as this process does.
OPTIONS = ("-P", "-X", f"utf8={sys.flags.utf8_mode}")
Signature = tuple[int, int, int, int, int]  # device, inode, size, mtime and ctime in nanoseconds


class Job(Record, frozen=True):
    """A stage to be run; every path is absolute.

    Attributes:
        stage: its id, unique among the jobs of an executor.
        key: of its result, as far as it is known before it runs.
        origin: `built-in`, `plug-in` or `file`.
        entry: a module, or `path.py:function` relative to `root`.
        spec: what its kind depends on and yields.
        params: every parameter as plain values.
        inputs: the read-only folder at each connected input port.
        lasting: whether files keep their inode numbers there.
        output: the empty folder that it fills.
        scratch: its working folder; temporary files go there too.
        log: the file that takes everything it prints.
        file: the pipeline file, for the command that runs the stage alone.
        root: the folder that code and paths are relative to.
        project: the top folder of the user's own code.
        named: the folders of the files that its parameters name.
        ignore: folders in which nothing read is a discovery (the store, but for what it leaves for people).
        target: the target that its parameters name.
        extra_targets: targets that other parameters name, by the parameter.
        seed: seed of every random choice.
        timeout: seconds that it may run, or None.
        memory: bytes that its processes may hold together, or None.
        lineage: `lineage.json`, for kinds that ask for it.
        overrides: the `--set` values of the run, for that command as well.
        interpreter: the Python of the isolated environment that it runs in; None for orun's own.
    """

    stage: str
    key: str
    origin: Literal["built-in", "plug-in", "file"]
    entry: str
    spec: Spec
    params: Mapping[str, Any]
    inputs: Mapping[str, str]
    output: str
    scratch: str
    log: str
    file: str
    root: str
    project: str
    lasting: bool = True
    named: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    target: Target | None = None
    extra_targets: Mapping[str, Target] = field(default_factory=dict)
    seed: int = 0
    timeout: float | None = None
    memory: int | None = None
    lineage: str | None = None
    interpreter: Interpreter | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)

    @property
    def plugged(self) -> str:
        """The top-level package of the plug-in that is its kind, whose content counts; empty where it is none."""
        return self.entry.partition(".")[0] if self.origin == "plug-in" else ""


class JobResult(Record, frozen=True):
    """What a stage that ended well returned, read and took.

    What it read is what it did not declare: nothing of the interpreter, of installed packages, of its own folders or of
    `Job.ignore`.

    Attributes:
        metrics: by name, finite.
        reads: absolute path -> signature when it was first opened, or None when it was not there.
        listings: absolute path of a folder -> digest of its names when it was first listed, or looked for in vain (see
            `orun.fs.observed_state.listing_digest`).
        packages: distribution -> version of what the user's code imported, with what that needs and has loaded.
        environment: variable -> value, or None when it was not set, as the user's code looked it up.
        probed: absolute path -> what was there when it was first asked for, but not opened
            (`orun.fs.observed_state.appearance`).
        wrote: absolute path of a file of the project that it wrote and left beside its output -> how.
        notes: what it said of its result, a sentence each.
        untraced: why files that are opened below Python, by native code and by other programs, were not all seen; empty
            when they were.
        seconds: wall time.
        cpu_seconds: of its process and those that it started and waited for.
        peak_memory: resident bytes of its largest process, shared pages of preloaded libraries included.
    """

    metrics: Mapping[str, Metric] = field(default_factory=dict)
    reads: Mapping[str, Signature | None] = field(default_factory=dict)
    listings: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str | None] = field(default_factory=dict)
    probed: Mapping[str, str] = field(default_factory=dict)
    wrote: Mapping[str, How] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    untraced: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory: int = 0


def partial_trace_notice(why: str) -> str:
    """Return the notice that stages are traced in part, and why."""
    return f"trace: python: files that native code and other programs open are not seen: {why}"


class Progress(Record, frozen=True):
    """A stage says how far it is; `total` is 0 when it does not know."""

    stage: str
    done: int
    total: int
    what: str


class Finished(Record, frozen=True):
    """The process of a stage is gone, and so is everything that it had started."""

    stage: str
    result: JobResult | StageError


class Executor(Protocol):
    """Runs jobs, each in a process of its own; driven by one thread."""

    def start(self, job: Job) -> None:
        """Have a job run as soon as can be; returns at once."""

    def wait(self, timeout: float | None = None) -> list[Progress | Finished]:
        """What happened since the last call; waits for something to happen, and for `timeout` seconds at most.

        Returns at once when no job is running.
        """

    def cancel(self, stage: str) -> None:
        """Stop a job; its `Finished` comes when it is gone. Nothing happens when it is not running."""

    def close(self) -> None:
        """Stop what still runs and wait until it is gone."""
