"""Failures of orders that are no errors of a stage: a remote that cannot be used, and bugs of orun."""

from __future__ import annotations

import traceback

from orun.core.run_record import Failure
from orun.environment.secret_variables import Secrets
from orun.executors import Mask


def remote_failure(machine: str, url: str, error: BaseException) -> Failure:
    """Return the failure of a machine to use a remote."""
    hint = "See that it is there and lets that machine in, and run again"
    why = Mask.of(Secrets()).text(str(error))
    return Failure("StageFailed", f"{machine} cannot use the remote {url}", why, hint)


def bug(machine: str, error: Exception) -> Failure:
    """Return the failure of an agent with an error that it did not expect."""
    problem = f"{machine} met a bug in orun: {type(error).__name__}: {error}"
    return Failure("StageFailed", problem, "".join(traceback.format_tb(error.__traceback__)))
