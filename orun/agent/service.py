"""Service of an agent: accepts drivers at an address, passes their messages to the work, and holds their leases."""

from __future__ import annotations

import hmac
import os
import selectors
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from types import FrameType

from orun.agent.address import Address, compute_proof
from orun.agent.frames import (
    LONGEST,
    LONGEST_HELLO,
    Cancel,
    Challenge,
    Close,
    FactsRequest,
    FrameError,
    Hello,
    Message,
)
from orun.agent.local_machine import with_present_state
from orun.agent.peer import BEAT_SECONDS, LEASE_SECONDS, Beater, Peer, Waker
from orun.agent.work import Work
from orun.core.machines import Leaving, Machine, Order
from orun.core.serialization import replace
from orun.store import Store

CHECK_SECONDS = 0.25  # between two looks at the leases
GRACE_SECONDS = 20.0  # for running stages to end after the first signal
MOST_DRIVERS = 64
LONGEST_NAME = 100  # characters of a driver's name in the log


@dataclass(eq=False)
class Driver:
    """A connected driver."""

    peer: Peer
    nonce: str  # the text that its proof is made for; empty if none is asked for
    name: str = ""  # empty until it has said hello, with a good proof
    connected_at: float = field(default_factory=monotonic)  # monotonic time


class Service:
    """Agent at an address.

    Args:
        address: where it listens.
        machine: this machine.
        store: the agent's store.
        folder: whose `pyproject.toml` names the keys of remotes that this machine trusts.
        log: takes lines for the agent's user.
        lease: seconds of silence after which a driver counts as gone.
        grace: seconds that running stages have to end after the first signal.

    Attributes:
        address: where it listens, with its port.
    """

    def __init__(
        self,
        address: Address,
        machine: Machine,
        store: Store,
        *,
        folder: Path,
        log: Callable[[str], None] = lambda _: None,
        lease: float = LEASE_SECONDS,
        grace: float = GRACE_SECONDS,
    ) -> None:
        self._machine = machine
        self._log = log
        self._lease = lease
        self._listener = address.listen()
        self._listener.setblocking(False)
        self.address = address if address.path else replace(address, port=self._listener.getsockname()[1])
        self._waker = Waker()
        self._work = Work(store, machine, folder, self._waker.wake, log)
        self._drivers: list[Driver] = []
        self._grace = grace
        self._signals: list[str] = []
        self._ended = False
        self._ends_at: float | None = None  # monotonic time at which the stages that still run are stopped
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._waker, selectors.EVENT_READ, self._waker.drain)
        self._watched: set[int] = set()

    def stop(self, number: int, _frame: FrameType | None = None) -> None:
        """Let `run` end when running stages have, as a handler of signals; a second signal ends it at once."""
        self._signals.append(signal.Signals(number).name)
        self._waker.wake()

    def end(self) -> None:
        """Let `run` end at once. May be called in another thread."""
        self._ended = True
        self._waker.wake()

    def run(self) -> None:
        """Serve until `stop` or `end`; then stop the stages that still run, and wait until they have ended."""
        beater = Beater(lambda: [driver.peer for driver in list(self._drivers)], min(BEAT_SECONDS, self._lease / 3))
        why = "an error"
        try:
            while not self._is_over():
                self._handle_news()
            why = self._signals[0] if self._signals else "it has left its fleet"
        finally:
            beater.stop()
            self._work.close(f"the agent was stopped ({why})")
            for driver in self._drivers:
                driver.peer.close()
            self._close_listener()
            self._selector.close()
            self._waker.close()

    def _is_over(self) -> bool:
        """Return whether to end now; begin to leave at the first signal."""
        if self._signals and self._ends_at is None:
            self._leave()
        is_late = self._ends_at is not None and (monotonic() >= self._ends_at or not self._work.stages)
        return self._ended or is_late or len(self._signals) > 1

    def _leave(self) -> None:
        """Accept no more drivers and orders; running stages go on for a while."""
        self._ends_at = monotonic() + self._grace
        self._close_listener()
        for driver in filter(lambda driver: driver.name, self._drivers):
            driver.peer.send(Leaving(self._machine.id))
        self._work.leave(f"its agent stops ({self._signals[0]})")
        if stages := self._work.stages:
            self._log(f"stops within {self._grace:g} s, after {', '.join(stages)}; a second signal stops at once")

    def _close_listener(self) -> None:
        """Listen no more; another agent may listen at the address from now on."""
        if self._listener.fileno() >= 0:
            self._selector.unregister(self._listener)
            self._listener.close()
            self.address.remove()

    def _handle_news(self) -> None:
        """Wait for news, and handle it."""
        self._watch()
        pause = self._work.pause
        if self._drivers or self._ends_at is not None:
            pause = CHECK_SECONDS if pause is None else min(pause, CHECK_SECONDS)
        for key, _ in self._selector.select(pause):
            if callable(key.data):
                key.data()
        for driver in list(self._drivers):
            self._serve(driver)
        self._work.advance()

    def _watch(self) -> None:
        """Wait for running stages too, and until drivers take what could not be sent."""
        wanted = self._work.list_descriptors()
        for descriptor in self._watched - wanted:
            self._selector.unregister(descriptor)
        for descriptor in wanted - self._watched:
            self._selector.register(descriptor, selectors.EVENT_READ)
        self._watched = wanted
        for driver in self._drivers:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if driver.peer.unsent else 0)
            self._selector.modify(driver.peer, events)

    def _accept(self) -> None:
        with suppress(BlockingIOError, ConnectionError):
            connection, _ = self._listener.accept()
            if len(self._drivers) >= MOST_DRIVERS:
                connection.close()
                return
            nonce = os.urandom(16).hex() if self.address.token else ""
            driver = Driver(Peer(connection), nonce)
            driver.peer.reader.longest = LONGEST_HELLO
            self._drivers.append(driver)
            self._selector.register(driver.peer, selectors.EVENT_READ)
            driver.peer.send(Challenge(nonce))

    def _serve(self, driver: Driver) -> None:
        """Handle the messages of a driver; let it go if it is gone, silent, or not welcome."""
        driver.peer.flush()
        try:
            for message in driver.peer.receive():
                if why := self._handle(driver, message):
                    self._remove(driver, why)
                    return
        except FrameError as error:
            self._remove(driver, str(error))
            return
        if driver.peer.closed:
            self._remove(driver, "it is gone")
        elif not driver.name and monotonic() - driver.connected_at > self._lease:
            self._remove(driver, "it did not say hello")
        elif driver.peer.is_silent(self._lease):
            self._remove(driver, f"it was silent for {self._lease:g} s")

    def _handle(self, driver: Driver, message: Message) -> str:
        """Handle a message; return why the connection ends, or an empty text."""
        if isinstance(message, Hello):
            if driver.nonce and not self._is_proof(driver.nonce, message.proof):
                return "it does not know the token"
            driver.name = "".join(filter(str.isprintable, message.driver))[:LONGEST_NAME] or "a driver"
            driver.peer.reader.longest = LONGEST
            driver.peer.send(with_present_state(self._machine, self._work.store.root))
            if self._ends_at is not None:
                driver.peer.send(Leaving(self._machine.id))
            self._log(f"{driver.name} is connected")
        elif not driver.name:
            return "it did not say hello"
        elif isinstance(message, Order):
            self._work.add_order(driver, message, driver.peer.send)
        elif isinstance(message, FactsRequest):
            self._work.add_question(driver, message, driver.peer.send)
        elif isinstance(message, Cancel):
            self._work.cancel(driver, message.stage)
        elif isinstance(message, Close):
            return "it has ended"
        return ""

    def _is_proof(self, nonce: str, proof: str) -> bool:
        expected = compute_proof(self.address.token, nonce)
        return hmac.compare_digest(expected.encode(), proof.encode(errors="replace"))

    def _remove(self, driver: Driver, why: str) -> None:
        self._log(f"{driver.name or 'a driver'} is not connected any more: {why}")
        self._drivers.remove(driver)
        self._selector.unregister(driver.peer)
        driver.peer.close()
        self._work.drop(driver)
