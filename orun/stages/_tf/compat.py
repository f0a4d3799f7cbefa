"""Work-around for TensorFlow: functions that XLA must compile hide their operations from tf2onnx.

Tried with TensorFlow 2.21 and tf2onnx 1.17. `tests/stages/_tf/test_compat.py` fails when tf2onnx converts them itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import tensorflow as tf


@contextmanager
def without_xla() -> Iterator[None]:
    """Let `tf.function` ignore `jit_compile`, which Keras sets for grouped convolutions."""
    original = tf.function

    def ignore_jit_compile(*arguments: Any, **options: Any) -> Any:
        return original(*arguments, **{**options, "jit_compile": None})

    with patch.object(tf, "function", ignore_jit_compile):
        yield
