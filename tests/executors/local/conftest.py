from __future__ import annotations

from collections.abc import Iterator

import pytest

from orun.executors import LocalExecutor


@pytest.fixture
def executor() -> Iterator[LocalExecutor]:
    """Executor of one test, which may harm its servers or change what they start from."""
    with LocalExecutor() as executor:
        yield executor
