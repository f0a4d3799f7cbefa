"""Faults of a run on several machines: it ends well or says why, leaves nothing behind, and the next run continues."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from tests.cluster.network import why_no_network
from tests.faults import machines
from tests.faults.rig import BAD
from tests.faults.site import Site

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A driver and two agents; left out where namespaces are missing."""
    if why := why_no_network():
        pytest.skip(why)
    with Site.open(tmp_path_factory.mktemp("machines")) as site:
        yield site


@pytest.mark.parametrize(
    "fault", ["agent killed", "agent told to stop", "driver killed", "tool changed", "remote damaged", "full disk"]
)
def test_a_fault_of_one_machine(site: Site, fault: str) -> None:
    _, description, judgement = machines.trial(site, Random("2026-11"), fault)
    assert judgement.outcome not in BAD, f"{description}: {judgement.why}"
