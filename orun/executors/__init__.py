"""Executors: run each stage in a process of its own.

`Executor` is the protocol, `LocalExecutor` its implementation on this machine: a fork server (`local/zygote.py`)
imports the libraries that a stage needs, and forks the stage's process.
"""

from __future__ import annotations

from orun.executors.job import Executor, Finished, Job, JobResult, Progress
from orun.executors.local.executor import LocalExecutor

__all__ = ["Executor", "Finished", "Job", "JobResult", "LocalExecutor", "Progress"]
