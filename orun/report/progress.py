"""Progress of a run: which stages run and wait, how many are done, and how long the rest may take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from time import monotonic

from orun.core.events import Event, RunStarted, StageFinished, StageProgress, StageStarted, StageWaiting
from orun.text.counts import count
from orun.text.units import show


class RunningStage:
    """Stage that runs or waits.

    Attributes:
        began: when it began to, by the monotonic clock.
        expected: seconds that it took last time; None if that is not known.
        note: what it waits for, or how far it is.
    """

    def __init__(self, began: float, expected: float | None = None) -> None:
        self.began = began
        self.expected = expected
        self.note = ""


class RunProgress:
    """Reduces the events of a run to its progress."""

    def __init__(self) -> None:
        self.total = 0
        self.done: set[str] = set()
        self.running: dict[str, RunningStage] = {}
        self._began = monotonic()
        self._expected: dict[str, float | None] = {}

    def apply(self, event: Event) -> None:
        """Take an event into account; what a stage reports after its end is not shown."""
        if isinstance(event, (StageWaiting, StageProgress)) and event.stage in self.done:
            return
        if isinstance(event, RunStarted):
            self.total = len(event.stages)
            self._expected = dict(event.expected)
        elif isinstance(event, StageStarted):
            self.running[event.stage] = RunningStage(monotonic(), event.seconds)
        elif isinstance(event, StageWaiting):
            self._ensure_stage(event.stage).note = f"waiting for {event.waits_for}"
        elif isinstance(event, StageProgress):
            share = f"{event.done} of {event.total} " if event.total else ""
            self._ensure_stage(event.stage).note = f"{share}{event.unit}"
        elif isinstance(event, StageFinished):
            self.done.add(event.result.stage)
            self.running.pop(event.result.stage, None)

    def _ensure_stage(self, name: str) -> RunningStage:
        return self.running.setdefault(name, RunningStage(monotonic()))

    def iter_stages(self) -> Iterator[tuple[str, str]]:
        """Yield each running stage with its time and how far it is: `3 s of about 12 s, 120 of 312 examples`."""
        now = monotonic()
        for name, stage in self.running.items():
            elapsed = show(float(int(now - stage.began)), "s")
            expected = f" of about {show(stage.expected, 's')}" if stage.expected else ""
            yield name, f"{elapsed}{expected}{f', {stage.note}' if stage.note else ''}"

    def summarize(self) -> str:
        """Return `3 of 7 stages, 12 s, about 40 s left`."""
        elapsed = show(float(int(monotonic() - self._began)), "s")
        left = self.estimate_seconds_left()
        rest = f", about {show(float(round(left)), 's')} left" if left is not None and left >= 1 else ""
        return f"{len(self.done)} of {count(self.total, 'stage')}, {elapsed}{rest}"

    def estimate_seconds_left(self) -> float | None:
        """Return the time that the rest took last time, shared by the stages that run now; None if unknown."""
        now = monotonic()
        rest: Mapping[str, float | None] = {
            **{name: seconds for name, seconds in self._expected.items() if name not in self.done},
            **{name: stage.expected for name, stage in self.running.items()},
        }
        seconds: list[float] = []
        for name, expected in rest.items():
            if expected is None:
                return None
            began = self.running[name].began if name in self.running else now
            seconds.append(max(expected - (now - began), 0.0))
        return max(sum(seconds) / max(len(self.running), 1), *seconds) if seconds else None
