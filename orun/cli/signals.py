"""SIGTERM and SIGHUP handling: they stop a run as Ctrl-C does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from orun.core.events import Event, RunStarted
from orun.eventlog import Listener


def wrap_listener(stack: ExitStack, listener: Listener | None) -> Listener:
    """Return a listener that passes events on; from the start of a run with work to do, signals stop it."""

    def receive(event: Event) -> None:
        if isinstance(event, RunStarted) and not event.repeats:
            stack.enter_context(stop_signals())
        if listener:
            listener(event)

    return receive


@contextmanager
def stop_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGTERM and SIGHUP, unless they are handled or ignored already, as by nohup."""
    import signal  # not for a run with nothing to do

    unhandled = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    for number in unhandled:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in unhandled:
            signal.signal(number, signal.SIG_DFL)
