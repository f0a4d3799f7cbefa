"""One end of a connection between a driver and an agent: messages over a socket, with signs of life."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from time import monotonic

from orun.agent.frames import Beat, FrameReader, Message, encode_frame

CHUNK = 1 << 18  # bytes to receive at a time
WAKE = b"!"
BEAT_SECONDS = 5.0  # between two signs of life
LEASE_SECONDS = 15.0  # of silence, after which the other end counts as gone


class Peer:
    """One end of a connection; one thread receives, any thread sends."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._socket.setblocking(False)
        self.reader = FrameReader()
        self._unsent = bytearray()
        self._lock = threading.Lock()
        self._broken = False  # nothing more can be sent; there may still be something to receive
        self.closed = False  # whether the other end is gone
        self.heard_at = monotonic()  # monotonic time of the last bytes from the other end

    def fileno(self) -> int:
        """Return the descriptor, for a selector."""
        return self._socket.fileno()

    def send(self, message: Message) -> None:
        """Send as much as fits without waiting; `flush` sends the rest. A message to a closed end is lost."""
        with self._lock:
            self._unsent += encode_frame(message)
        self.flush()

    def flush(self) -> None:
        """Send as much as fits of what is not sent yet."""
        with self._lock:
            while self.unsent:
                try:
                    sent = self._socket.send(self._unsent)
                except BlockingIOError:
                    return
                except OSError:  # the other end is gone, or the way to it
                    self._broken = True
                else:
                    del self._unsent[:sent]

    @property
    def unsent(self) -> bool:
        """Whether `flush` has something to send."""
        return bool(self._unsent) and not self._broken and not self.closed

    def receive(self) -> list[Message]:
        """Return the messages that have arrived, signs of life left out, without waiting.

        Raises:
            FrameError: if the other end sends something else.
        """
        messages: list[Message] = []
        while not self.closed:
            try:
                data = self._socket.recv(CHUNK)
            except BlockingIOError:
                break
            except OSError:  # the other end is gone, or the way to it
                data = b""
            self.closed = self.closed or not data
            if data:
                self.heard_at = monotonic()
                messages += self.reader.feed(data)
        return [message for message in messages if not isinstance(message, Beat)]

    def is_silent(self, seconds: float) -> bool:
        """Return whether nothing has come from the other end for so long."""
        return monotonic() - self.heard_at > seconds

    def close(self) -> None:
        """Close this end, after an attempt to send the rest."""
        self.flush()
        self.closed = True
        self._socket.close()


class Beater:
    """Thread that sends signs of life, also while the thread that uses the connections is busy.

    Args:
        peers: returns the connections.
        seconds: between two signs of life.
    """

    def __init__(self, peers: Callable[[], Iterable[Peer]], seconds: float) -> None:
        self._peers = peers
        self._seconds = seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        while not self._stopped.wait(self._seconds):
            for peer in self._peers():
                with suppress(OSError):  # closed by the other thread this moment
                    peer.send(Beat())

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()


class Waker:
    """Pair of sockets by which any thread ends the wait of the thread that selects on it."""

    def __init__(self) -> None:
        self._end, self._start = socket.socketpair()
        for end in (self._end, self._start):
            end.setblocking(False)

    def fileno(self) -> int:
        """Return the descriptor, for a selector."""
        return self._end.fileno()

    def wake(self) -> None:
        """End the present or next wait. Any thread may call this, also after `close`."""
        with suppress(OSError):  # there is enough in the socket, or it is closed
            self._start.send(WAKE)

    def drain(self) -> None:
        """Take what `wake` has sent, so that the next wait waits again."""
        with suppress(BlockingIOError):
            while self._end.recv(1 << 12):
                pass

    def close(self) -> None:
        """Close both ends."""
        self._end.close()
        self._start.close()
