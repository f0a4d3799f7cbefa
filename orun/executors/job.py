"""The executor protocol: a job, its result, and the contract with the runner, as plain data."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Literal, Protocol

from orun.core.metrics import Metric
from orun.core.serialization import Record, field
from orun.core.source_model import SourceModel
from orun.core.targets import Interpreter, Target
from orun.errors import StageError
from orun.fs.signatures import Signature
from orun.stages.contract import Spec
from orun.store.records import How

# Interpreter options of stages: no modules from the working folder, and the same text encoding as this process.
OPTIONS = ("-P", "-X", f"utf8={sys.flags.utf8_mode}")


class Job(Record, frozen=True):
    """Stage to run; every path is absolute.

    Attributes:
        stage: its id, unique among the jobs of an executor.
        key: its cache key.
        origin: `built-in`, `plug-in` or `file`.
        entry: a module, or `path.py:function` relative to `root`.
        spec: declaration of its kind.
        params: every parameter as a plain value.
        inputs: the read-only folder at each connected input port.
        stable_inodes: whether files in the inputs keep their inode numbers.
        output: the empty folder that it fills.
        work: its working folder; temporary files go there too if its path is short.
        log: file that takes everything it prints.
        file: the pipeline file, for the command in error messages.
        root: the folder that code and paths are relative to.
        project: top folder of the user's code.
        named_folders: folders of the files that its parameters name.
        ignore: folders and files that are no implicit dependencies (the store, except output checkouts).
        target: the target that its parameters name.
        extra_targets: targets that other parameters name, by parameter.
        sources: source models that it runs in place of what is at its inputs, by input.
        seed: seed of every random choice.
        timeout: time limit in seconds, or None.
        memory: memory limit of all its processes together in bytes, or None.
        provenance: path of `provenance.json`, for kinds that ask for it.
        overrides: `--set` values of the run, for the command in error messages.
        interpreter: Python of its isolated environment; None for orun's own.
    """

    stage: str
    key: str
    origin: Literal["built-in", "plug-in", "file"]
    entry: str
    spec: Spec
    params: Mapping[str, Any]
    inputs: Mapping[str, str]
    output: str
    work: str
    log: str
    file: str
    root: str
    project: str
    stable_inodes: bool = True
    named_folders: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    target: Target | None = None
    extra_targets: Mapping[str, Target] = field(default_factory=dict)
    sources: Mapping[str, SourceModel] = field(default_factory=dict)
    seed: int = 0
    timeout: float | None = None
    memory: int | None = None
    provenance: str | None = None
    interpreter: Interpreter | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)

    @property
    def plugin_package(self) -> str:
        """Top-level package of the plug-in kind, whose files count as dependencies; empty for other kinds."""
        return self.entry.partition(".")[0] if self.origin == "plug-in" else ""


class JobResult(Record, frozen=True):
    """Result of a stage that succeeded: metrics, implicit dependencies, undeclared writes, resource use.

    Files of the interpreter, of installed packages, of the stage's folders and of `Job.ignore` are left out.

    Attributes:
        metrics: by name, finite.
        reads: absolute path -> signature when first opened, or None if the file was missing.
        listings: absolute path of a folder -> `orun.fs.observed_state.digest_listing` when first listed.
        packages: distribution -> version of what the process loaded or looked for.
        environment: variable -> value that the user's code looked up, or None if it was not set.
        probed: absolute path -> `orun.fs.observed_state.observe_appearance` when first probed, but not opened.
        undeclared_writes: absolute path of an undeclared write in the project -> how it was written.
        notes: sentences of the stage about its result.
        untraced: why reads of native code and other programs are missing; empty if they were traced.
        seconds: wall time.
        cpu_seconds: CPU time of its process and of the child processes that it waited for.
        peak_memory: resident bytes of its largest process, including shared pages of preloaded libraries.
    """

    metrics: Mapping[str, Metric] = field(default_factory=dict)
    reads: Mapping[str, Signature | None] = field(default_factory=dict)
    listings: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str | None] = field(default_factory=dict)
    probed: Mapping[str, str] = field(default_factory=dict)
    undeclared_writes: Mapping[str, How] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    untraced: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory: int = 0


def format_trace_notice(why: str) -> str:
    """Return the notice that stages are traced in part, and why."""
    return f"trace: python: files that native code and other programs open are not seen: {why}"


class Progress(Record, frozen=True):
    """Progress of a stage; `total` is 0 if unknown."""

    stage: str
    done: int
    total: int
    text: str


class Finished(Record, frozen=True):
    """End of a stage's process and of everything that it had started."""

    stage: str
    result: JobResult | StageError


class Executor(Protocol):
    """Runner of jobs, each in a process of its own; used by one thread."""

    def start(self, job: Job) -> None:
        """Start a job as soon as possible; return at once."""

    def wait(self, timeout: float | None = None) -> list[Progress | Finished]:
        """Return the messages since the last call; wait for the first, `timeout` seconds at most.

        Return at once if no job is running.
        """

    def cancel(self, stage: str) -> None:
        """Stop a job; its `Finished` follows. Do nothing if it is not running."""

    def close(self) -> None:
        """Stop all running jobs and wait until they have ended."""
