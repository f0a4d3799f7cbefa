"""The fleet that a URL names."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest

from orun.errors import UsageError
from orun.runner.open_fleet import GROUP, agent_command, open_fleet


class Plugin:
    """A fleet of a package."""

    def __init__(self, url: str) -> None:
        self.url = url


def test_a_package_may_offer_a_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("lab", "some.package:Plugin", GROUP)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: EntryPoints([point]))
    monkeypatch.setattr(EntryPoint, "load", lambda _: Plugin)
    fleet: Any = open_fleet("lab://bench/3")
    assert fleet.url == "lab://bench/3"


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("head:6379", "'head:6379' is no address of a fleet\n  hint: --on ray://head:6379"),
        (
            "dask://head:8786",
            "no fleet has addresses like 'dask://head:8786'\n  known: ray, tcp, unix\n  hint: --on ray://head:6379",
        ),
    ],
)
def test_a_wrong_url_is_refused(url: str, text: str) -> None:
    with pytest.raises(UsageError) as refused:
        open_fleet(url)
    assert str(refused.value) == text


@pytest.mark.parametrize(
    ("url", "command"),
    [
        ("ray://head:6379", "orun agent --join head:6379"),
        ("unix:///tmp/t4.sock,tcp://10.0.0.7:7777", "orun agent --listen URL"),
    ],
)
def test_the_command_that_starts_an_agent_is_that_of_the_fleet(url: str, command: str) -> None:
    assert agent_command(url) == command
