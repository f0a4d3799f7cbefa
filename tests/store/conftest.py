"""A store in a temporary folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from orun.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def everybodys() -> Iterator[Path]:
    """A folder that other users may enter, as they may not enter those of pytest."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o1777)
        yield Path(folder)
