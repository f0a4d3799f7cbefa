"""The run's end of the connection to the process that transfers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orun.environment.env_vars import SHARED_KEY
from orun.errors import UsageError
from orun.remote import client as module
from orun.remote.client import BrokenError, Client
from orun.remote.settings import Settings

NOTHING = {"do": "records", "key": "1" * 64, "first": 0, "count": 1}


@pytest.fixture
def client(folder: str) -> Iterator[Client]:
    client = Client(Settings(folder, "read"))
    yield client
    client.close()


def test_who_has_asked_nothing_waits_without_a_process(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(module, "sleep", slept.append)
    client.wait(0.5)
    assert slept == [0.5]
    assert client._process is None


def test_answers_that_nobody_takes_do_not_end_later_waits(client: Client) -> None:
    numbers = [client.ask(NOTHING), client.ask(NOTHING)]
    while len(client._answers) < len(numbers):
        client.wait(1)
    client.wait(0.01)
    for number in numbers:
        assert client.answer(number) == {"number": number, "answer": {"records": [], "refused": [], "more": False}}


def test_a_process_that_ends_says_why(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    number = client.ask({"do": "nonsense"})
    assert client._channel
    while not client._channel.closed:
        client.wait(1)
    with pytest.raises(BrokenError, match="KeyError: 'nonsense'"):
        client.answer(number)
    slept: list[float] = []
    monkeypatch.setattr(module, "sleep", slept.append)
    client.wait(0.5)
    assert slept == [0.5]


def test_settings_that_are_refused(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SHARED_KEY, "short")
    number = client.ask(NOTHING)
    assert client._channel
    while not client._channel.closed:
        client.wait(1)
    with pytest.raises(UsageError, match="ORUN_REMOTE_KEY is too short"):
        client.answer(number)
