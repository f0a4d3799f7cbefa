"""Supervision of one stage's process by the server that started it: limits, end, and what was traced."""

from __future__ import annotations

import signal
import sys
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

from orun.environment import processes
from orun.environment.physical_memory import count_out_of_memory_kills
from orun.executors.job import Job
from orun.executors.local.channel import Channel
from orun.executors.local.messages import Ended, Stop
from orun.executors.tracing.native import NativeReads
from orun.executors.tracing.scope import Scope

if TYPE_CHECKING:
    from resource import struct_rusage

GRACE = 2.0  # seconds between SIGTERM and SIGKILL
MEMORY_POLL = 0.05  # seconds between two looks at the memory of a stage with a limit
MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024


@dataclass
class Supervised:
    """Process of a stage, a child that has not been waited for.

    Attributes:
        job: its job.
        scope: which files are the user's.
        process: its id, also the id of its group.
        channel: connection to it.
        stopped: why it is being stopped.
        native: tracer of what it opens below Python, if the system allows it.
    """

    job: Job
    scope: Scope
    process: int
    channel: Channel
    stopped: Stop = ""
    native: NativeReads | None = None
    _began: float = field(default_factory=monotonic)
    _kills: int = field(default_factory=count_out_of_memory_kills)
    _kill_at: float = float("inf")

    def watch_native_reads(self) -> NativeReads | None:
        """Start to trace the files that the stage opens, once it has sent its seccomp descriptor."""
        if self.native or not self.channel.descriptors:
            return None
        self.native = NativeReads(self.channel.descriptors.popleft(), self.scope, self.process, self.job.plugin_package)
        return self.native

    def compute_patience(self) -> float:
        """Return the seconds until `enforce` must be called again."""
        limits = [self._kill_at] if self.stopped else [self._compute_deadline]
        if self.job.memory is not None and not self.stopped:
            limits.append(monotonic() + MEMORY_POLL)
        return max(0.0, min(limits) - monotonic())

    def enforce(self) -> None:
        """Stop the process if it is past a limit; kill it if it did not stop."""
        if self.stopped:
            if monotonic() >= self._kill_at:
                self.kill()
        elif monotonic() >= self._compute_deadline:
            self.stop("timeout")
        elif self.job.memory is not None and processes.measure_held_memory(self.process) > self.job.memory:
            self.stop("memory")

    @property
    def _compute_deadline(self) -> float:
        return float("inf") if self.job.timeout is None else self._began + self.job.timeout

    def stop(self, why: Stop) -> None:
        """Send SIGTERM to its group; what has not ended after `GRACE` is killed."""
        if not self.stopped:
            self.stopped = why
            self._kill_at = monotonic() + GRACE
            processes.signal_group(self.process, signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to its group."""
        self._kill_at = float("inf")
        processes.signal_group(self.process, signal.SIGKILL)

    def report_end(self, status: int, usage: struct_rusage) -> Ended:
        """Return the report of its end, after it was waited for."""
        if self.native:
            self.native.answer()
        packages = self.native.collect_packages() if self.native else {}  # adds to the reads that are returned below
        return Ended(
            status=status,
            seconds=monotonic() - self._began,
            cpu_seconds=usage.ru_utime + usage.ru_stime,
            peak_memory=usage.ru_maxrss * MAXRSS_UNIT,
            stopped=self.stopped,
            out_of_memory=bool(status) and count_out_of_memory_kills() > self._kills,
            reads=self.native.recorder.reads if self.native else {},
            written=self.native.recorder.written if self.native else {},
            missed=sorted(self.native.recorder.missed) if self.native else [],
            packages=packages,
            probed=self.native.probed if self.native else {},
            untraced=self.native.untraced if self.native else "",
        )

    def release(self) -> None:
        """Close the connections to it."""
        self.channel.close()
        if self.native:
            self.native.close()
