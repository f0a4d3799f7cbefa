"""The cluster of a session of tests."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from tests.cluster.cluster import Cluster, open_cluster
from tests.cluster.network import why_no_network


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A cluster with a head and two more machines; left out where Ray or namespaces are missing."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed: pip install 'orun[ray]'")
    if why := why_no_network():
        pytest.skip(why)
    with open_cluster(("head", "a", "b")) as cluster:
        yield cluster
