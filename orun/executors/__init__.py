"""Executors: run each stage in a process of its own.

`Executor` is the protocol, `LocalExecutor` its implementation on this machine: a fork server (`local/zygote.py`)
imports the libraries that a stage needs, and forks the stage's process.
"""

from __future__ import annotations

from orun.executors.failures import format_commands
from orun.executors.job import Executor, Finished, Job, JobResult, Progress, format_trace_notice
from orun.executors.local.executor import LocalExecutor
from orun.executors.local.reentrancy import find_enclosing_stage
from orun.executors.masking import Mask

__all__ = [
    "Executor",
    "Finished",
    "Job",
    "JobResult",
    "LocalExecutor",
    "Mask",
    "Progress",
    "explain_partial_tracing",
    "find_enclosing_stage",
    "format_commands",
    "format_trace_notice",
]


def explain_partial_tracing() -> str:
    """Return why stages would be traced in part on this machine; "" if they would be traced in full."""
    from orun.executors.tracing import availability  # `orun doctor` alone needs it

    return availability.explain_partial_tracing()
