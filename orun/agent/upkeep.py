"""Upkeep of an agent between orders: look at packages, devices and orun's code again, and let go of the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from orun.agent.executor_pool import ExecutorPool
from orun.agent.local_machine import compute_code_digest, compute_code_signature
from orun.agent.project_folders import ProjectFolders
from orun.core.machines import Machine
from orun.environment import distributions
from orun.environment.call_cache import forget
from orun.errors import OrunError
from orun.fs.os_errors import convert_os_errors
from orun.store import Store

REFRESH_SECONDS = 5.0  # for which an agent without running stages relies on what it knows


@dataclass
class Upkeep:
    """Upkeep of what an agent knows of its machine, and of its session in the store."""

    store: Store
    machine: Machine
    folders: ProjectFolders
    executors: ExecutorPool
    log: Callable[[str], None]
    _refreshed_at: float = float("-inf")
    _signature: int = 0  # of orun's code, when it was found unchanged
    _rested: bool = True  # whether nothing was used since the store was let go

    def expect_change(self) -> None:
        """Look again at the next `refresh`, however short ago that was: a run begins."""
        self._refreshed_at = float("-inf")

    def refresh(self) -> str:
        """Look again at what may have changed; return why no stage can run any more, or an empty text."""
        self._rested = False
        if monotonic() - self._refreshed_at < REFRESH_SECONDS:
            return ""
        packages = distributions.list_exact()
        forget()
        self._refreshed_at = monotonic()
        self.folders.forget_facts()
        if packages != distributions.list_exact():
            self.folders.forget_pipelines()  # kinds may be in packages
            self.executors.close()  # their servers have imported the old packages
        return f"orun was changed on {self.machine.id}; start the agent there again" if self._is_changed() else ""

    def _is_changed(self) -> bool:
        """Return whether orun's code is another one than when the agent started."""
        try:
            signature = compute_code_signature()
            changed = signature != self._signature and compute_code_digest() != self.machine.orun
        except OSError:  # its files are just being replaced
            return True
        if not changed:
            self._signature = signature
        return changed

    def release_results(self) -> None:
        """Let garbage collection remove what this agent has used, once after the last order."""
        if self._rested:
            return
        self._rested = True
        try:
            self.store.close()
            self.begin_session()
        except OrunError as error:  # a full disk: the next order begins a session, or fails
            self.log(f"{error.problem}: {error.why}")

    def begin_session(self) -> None:
        """Let garbage collection spare what this agent uses from now on."""
        with convert_os_errors("use the store", self.store.root):
            self.store.parts.session.begin()
