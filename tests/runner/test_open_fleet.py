"""The fleet that a URL names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orun.environment.install_commands import choose_installer
from orun.errors import UsageError
from orun.runner.open_fleet import format_agent_command, open_fleet
from tests.site_packages import Site

FLEET = """
class Fleet:
    def __init__(self, url):
        self.url = url


NOTHING = None
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A package that offers fleets of two schemes, one of them broken."""
    site = Site.make(tmp_path)
    metadata = site.install("acme_fleet", "1.2", FLEET)
    points = "[orun.executors]\nlab = acme_fleet:Fleet\nbroken = acme_fleet:NOTHING\n"
    (metadata / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(site.folder)
    return site


@pytest.mark.usefixtures("site")
def test_a_package_may_offer_a_fleet() -> None:
    fleet: Any = open_fleet("lab://bench/3")
    assert fleet.url == "lab://bench/3"


@pytest.mark.usefixtures("site")
def test_a_broken_package_is_named() -> None:
    with pytest.raises(UsageError) as refused:
        open_fleet("broken://bench/3")
    assert str(refused.value) == (
        "the fleet 'broken' of the package acme_fleet cannot be used: acme_fleet:NOTHING is not a function\n"
        f"  hint: {choose_installer()} --upgrade acme_fleet"
    )


def test_two_packages_that_offer_a_scheme(site: Site) -> None:
    metadata = site.install("zeta", "0.1", FLEET)
    (metadata / "entry_points.txt").write_text("[orun.executors]\nlab = zeta:Fleet\n")
    with pytest.raises(UsageError) as refused:
        open_fleet("lab://bench/3")
    assert str(refused.value) == (
        "the fleet 'lab' is offered by 2 packages: acme_fleet, zeta\n"
        "  expected a single package that offers it\n  hint: pip uninstall zeta"
    )


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
    assert format_agent_command(url) == command
