"""Writer of a run's folder: the event log while it runs, the run record at the end."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import time
from types import TracebackType
from typing import Any, Self

from orun.core.events import Event, Notice, RunFinished, StageFinished, build_line
from orun.core.run_record import RunResult
from orun.core.serialization import encode, replace, to_json
from orun.eventlog.listener import Listener
from orun.eventlog.reducer import Reducer
from orun.fs.durable import replace_file, sync_folders, write_all
from orun.fs.os_errors import convert_os_errors
from orun.store.checksummed_json import encode_checksummed
from orun.store.layout import RECORD_FILE


def build_unrecorded_notice(store: Path) -> Notice:
    """Return the notice that a run is not recorded."""
    return Notice("info", f"the store {store} cannot be written: this run is not recorded")


class Journal:
    """Event log of a run: writes each event and passes it on.

    Attributes:
        folder: the run's folder; its name is the run's id.
        started_at: seconds since the epoch.
        recorded: whether anything is written; False for a read-only store.
    """

    def __init__(self, folder: Path, listener: Listener, started_at: float, *, recorded: bool = True) -> None:
        self.folder = folder
        self.started_at = started_at
        self.recorded = recorded
        self._listener = listener

    def __enter__(self) -> Self:
        log = self.folder / "events.jsonl" if self.recorded else os.devnull
        with convert_os_errors("begin the log of the run", self.folder):
            self._log = Path(log).open("wb", buffering=0)
        self._reducer = Reducer()
        self._encoded: dict[str, Any] = {}  # results that came as plain data, by stage
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with convert_os_errors("write the log of the run", self.folder) if error is None else suppress(OSError):
            self._log.close()

    @property
    def seconds(self) -> float:
        """Wall time since the run began; at least 0 even if the clock was set back."""
        return max(time() - self.started_at, 0.0)

    def emit(self, event: Event) -> None:
        """Write an event and pass it on; StoreError if it cannot be written."""
        self._emit([(event, encode(event))])

    def emit_encoded(self, events: Iterable[tuple[Event, Mapping[str, Any]]]) -> None:
        """Write events that come with their encoded form, all in one write, and pass them on."""
        events = list(events)
        results = ((event.result.stage, data["result"]) for event, data in events if isinstance(event, StageFinished))
        self._encoded |= dict(results)
        self._emit(events)

    def _emit(self, events: Sequence[tuple[Event, Mapping[str, Any]]]) -> None:
        now = time()
        lines = [to_json(build_line(event, data, now)) for event, data in events]
        with convert_os_errors("write the log of the run", self.folder):
            write_all(self._log.fileno(), b"\n".join([*lines, b""]))
        for event, _ in events:
            self._reducer(event)
            self._listener(event)

    def build_result(self, exit_code: int) -> RunResult:
        """Return the result of the events so far."""
        return self._reducer.build_result(exit_code, self.seconds)

    def finish(self, result: RunResult) -> RunResult:
        """Write the run record and emit that the run has ended; StoreError if it cannot be written."""
        if self.recorded:
            self._write(result)
        self.emit(RunFinished(result.exit_code, result.seconds, result.edited))
        return result

    def _write(self, result: RunResult) -> None:
        record = self.folder / RECORD_FILE
        stages = [self._encoded.get(stage.stage) or encode(stage) for stage in result.stages]
        content = encode_checksummed({**encode(replace(result, stages=())), "stages": stages})
        durable = not result.repeats  # the record of the repeated run, which says the same, is on the disk
        with convert_os_errors("write the record of the run", self.folder):
            replace_file(str(record), content, f"{record}.new", sync=durable)
            if durable:
                sync_folders([str(self.folder.parent)])  # for the new entry of the run's folder
