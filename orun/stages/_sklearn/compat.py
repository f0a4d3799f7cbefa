"""Work-around for skl2onnx: truth values among the integer attributes of a tree, which protobuf 7 refuses.

Tried with skl2onnx 1.20. `tests/stages/_sklearn/test_compat.py` fails when skl2onnx writes integers itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from skl2onnx.common import _container


@contextmanager
def booleans_as_integers() -> Iterator[None]:
    """Let skl2onnx write truth values in lists of attributes as integers."""
    original = _container.make_node

    def make_node(*arguments: Any, **attributes: Any) -> Any:
        converted = {
            name: [int(item) if isinstance(item, (bool, np.bool_)) else item for item in value]
            if isinstance(value, list)
            else value
            for name, value in attributes.items()
        }
        return original(*arguments, **converted)

    _container.make_node = make_node
    try:
        yield
    finally:
        _container.make_node = original
