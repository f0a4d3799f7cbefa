"""The process that forks, seen from its server."""

from __future__ import annotations

import os
import select
import socket
import threading

import pytest

from orun.executors.local.forker import Forker


def test_one_that_is_killed_before_it_reads_a_request_is_gone() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def die() -> None:
        select.select([theirs], [], [], 20)
        theirs.close()

    death = threading.Thread(target=die)
    death.start()
    descriptor = os.open(os.devnull, os.O_RDONLY)
    try:
        with pytest.raises(EOFError, match=r"^the process that forks is gone$"):
            Forker(0, ours).fork(descriptor)
    finally:
        os.close(descriptor)
        death.join()
        ours.close()
