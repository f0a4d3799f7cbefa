from __future__ import annotations

from collections.abc import Iterator

import pytest

from orun.executors import LocalExecutor


@pytest.fixture
def own_executor() -> Iterator[LocalExecutor]:
    """Executor of one test, which harms its servers or changes what they start from."""
    with LocalExecutor() as executor:
        yield executor
