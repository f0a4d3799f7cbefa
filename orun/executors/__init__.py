"""Executors: where the process of a stage runs.

`Executor` is the contract; `LocalExecutor` keeps it on this machine. Each stage gets a process of its own, forked from
a server (`zygote.py`) that has imported, but not used, the libraries that the stage will need.
"""

from __future__ import annotations

from orun.executors.job import Executor, Finished, Job, JobResult, Progress
from orun.executors.local.executor import LocalExecutor

__all__ = ["Executor", "Finished", "Job", "JobResult", "LocalExecutor", "Progress"]
