"""Abilities of a stream, by its own traits and the conventions of the environment."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TextIO
from unittest import mock

import pytest

from orun.report.terminal import Terminal, detect


@contextmanager
def pseudo_terminal() -> Iterator[TextIO]:
    """A real terminal device of 100 columns."""
    import fcntl
    import struct
    import termios

    outer, inner = os.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    with os.fdopen(inner, "w") as stream:
        yield stream
    os.close(outer)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"TERM": "xterm-256color"}, Terminal(colour=True, live=True, width=100)),
        ({"TERM": "dumb"}, Terminal(colour=False, live=False, width=100)),
        ({"TERM": "xterm", "NO_COLOR": "1"}, Terminal(colour=False, live=True, width=100)),
        ({"TERM": "xterm", "NO_COLOR": ""}, Terminal(colour=True, live=True, width=100)),
        ({"TERM": "xterm", "NO_COLOR": "1", "FORCE_COLOR": "1"}, Terminal(colour=False, live=True, width=100)),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, Terminal(colour=True, live=False, width=100)),
        ({"TERM": "xterm", "CI": "true"}, Terminal(colour=True, live=False, width=100)),
        ({"TERM": "xterm", "COLUMNS": "72"}, Terminal(colour=True, live=True, width=72)),
    ],
)
def test_a_terminal(environ: Mapping[str, str], expected: Terminal) -> None:
    with mock.patch.dict(os.environ, environ, clear=True), pseudo_terminal() as stream:
        assert detect(stream) == expected


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"TERM": "xterm"}, Terminal(colour=False, live=False, width=120)),
        ({"FORCE_COLOR": "1"}, Terminal(colour=True, live=False, width=120)),
        ({"COLUMNS": "80"}, Terminal(colour=False, live=False, width=80)),
        ({"COLUMNS": "wide"}, Terminal(colour=False, live=False, width=120)),
    ],
)
def test_a_pipe_or_a_file(environ: Mapping[str, str], expected: Terminal) -> None:
    with mock.patch.dict(os.environ, environ, clear=True):
        assert detect(io.StringIO()) == expected


def test_a_terminal_that_does_not_know_its_size_is_taken_for_a_log() -> None:
    outer, inner = os.openpty()
    with mock.patch.dict(os.environ, {"TERM": "xterm"}, clear=True), os.fdopen(inner, "w") as stream:
        assert detect(stream).width == 120
    os.close(outer)


def test_text_is_painted_where_colours_show() -> None:
    assert Terminal(colour=True).paint("failed", "bad") == "\x1b[1;31mfailed\x1b[0m"
    assert Terminal(colour=True).paint("text", "") == "text"
    assert Terminal(colour=True).paint("", "bad") == ""
    assert Terminal().paint("failed", "bad") == "failed"
