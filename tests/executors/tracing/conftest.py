from __future__ import annotations

from collections.abc import Iterator

import pytest

from orun.executors import LocalExecutor


@pytest.fixture(scope="module")
def executor() -> Iterator[LocalExecutor]:
    """One for all tests of a module: none of them changes what its servers start from."""
    with LocalExecutor() as executor:
        yield executor
