"""Reports of stages, filtered before they are kept or shown: secrets are masked, warnings are given once a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from orun.core.events import Event, Notice, StageProgress
from orun.environment.secret_variables import Secrets
from orun.executors import JobResult, Mask, Progress, format_trace_notice
from orun.fs.os_errors import convert_os_errors

GUESS = (
    "{stage} looks up {name}, which is taken for a secret by its name: no result depends on its value; "
    "list it under `secrets` of the file, or under `env` of the stage if its result depends on it"
)


@dataclass
class StageReports:
    """Filter of what the stages of a run report."""

    secrets: Secrets
    emit: Callable[[Event], None]
    mask: Mask
    _warned: set[str] = field(default_factory=set)
    _untraced: str = ""

    def pass_progress(self, message: Progress) -> None:
        """Emit the progress of a stage."""
        self.emit(StageProgress(message.stage, message.done, message.total, self.mask.hide_in_text(message.text)))

    def filter_result(self, stage: str, result: JobResult) -> JobResult:
        """Return a result with secrets masked; warn of guessed secrets and of partial tracing, each once a run."""
        for name in sorted(filter(self.secrets.is_guess, result.environment)):
            if name not in self._warned:
                self._warned.add(name)
                self.emit(Notice("warning", GUESS.format(stage=stage, name=name)))
        if result.untraced and not self._untraced:
            self._untraced = result.untraced
            self.emit(Notice("info", format_trace_notice(result.untraced)))
        return self.mask.hide_in_result(result)

    def filter_log(self, stage: str, log: Path, store: Path) -> None:
        """Mask secrets in the log of a stage; StoreError if it cannot be rewritten."""
        with convert_os_errors(f"mask secrets in the log of {stage}", store):
            self.mask.hide_in_file(log)
