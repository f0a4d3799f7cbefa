"""SIGTERM and SIGHUP handling: they stop a run as Ctrl-C does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from orun.core.events import Event, RunStarted
from orun.eventlog.writer import Listener


@contextmanager
def heeding(listener: Listener | None) -> Iterator[Listener]:
    """A listener, which passes on; from when it hears of a run with work to do, signals are heeded until the end."""
    with ExitStack() as stack:

        def hear(event: Event) -> None:
            if isinstance(event, RunStarted) and not event.repeats:
                stack.callback(_heed())
            if listener:
                listener(event)

        yield hear


def _heed() -> Callable[[], None]:
    """Heed the signals but those that somebody has seen to, as nohup has to SIGHUP; what gives that up again."""
    import signal  # not for a run with nothing to do

    heeded = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is signal.SIG_DFL]
    for one in heeded:
        signal.signal(one, signal.default_int_handler)

    def leave() -> None:
        for one in heeded:
            signal.signal(one, signal.SIG_DFL)

    return leave
