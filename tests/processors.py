"""Needs of some tests of the processor."""

from __future__ import annotations

import pytest

from orun.environment import processor

exact_sums = pytest.mark.skipif(
    processor.saturates(), reason="this processor, without VNNI, saturates sums of 8-bit products"
)
