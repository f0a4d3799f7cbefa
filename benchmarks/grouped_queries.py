"""Cost of an attention whose query heads share keys and values: repeated for MultiHeadAttention, or grouped.

    python -m benchmarks.grouped_queries

`optimize/transformer` makes both forms, with and without `disable: [grouped_query_attention]`. Time is CPU time of one
thread, the median of rounds in which the two forms alternate; `ratio` is the median over the rounds. The last column is
the largest difference between their results.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import onnxruntime
from onnx import helper, numpy_helper, parser

from benchmarks.spent import machine, table

ROUNDS = 9
SECONDS = 0.05  # approximate time of a form in a round
HEADER = '<ir_version: 9, opset_import: ["" : 20, "com.microsoft" : 1]>'
SIGNATURE = (
    "g (float[b, l, q] query, float[b, l, k] key, float[b, l, k] value, float[b, o, l, l] bias) => (float[b, l, q] y)"
)
REPEATED = """
  keys5 = Reshape (key, apart)
  keys = Expand (keys5, times)
  many_keys = Reshape (keys, together)
  values5 = Reshape (value, apart)
  values = Expand (values5, times)
  many_values = Reshape (values, together)
  y = com.microsoft.MultiHeadAttention <num_heads = HEADS> (query, many_keys, many_values, , , bias)
"""
GROUPED = """
  size = Shape (query)
  size32 = Cast <to = 6> (size)
  length = Gather (size32, one)
  first = Gather (size, zero)
  last = Sub (length, one32)
  lengths = Expand (last, first)
  longest = Squeeze (length)
  y = com.microsoft.GroupQueryAttention <num_heads = HEADS, kv_num_heads = SHARED, causal = 0>
    (query, key, value, , , lengths, longest, , , , bias)
"""


@dataclass(frozen=True)
class Shape:
    """Sizes of an attention."""

    batch: int
    heads: int
    shared: int
    length: int
    size: int


SHAPES = (
    Shape(1, 8, 2, 16, 64),
    Shape(1, 8, 2, 128, 64),
    Shape(1, 32, 8, 128, 64),
    Shape(1, 32, 8, 512, 64),
    Shape(4, 16, 4, 128, 64),
    Shape(1, 16, 4, 512, 128),
    Shape(1, 16, 8, 256, 128),
    Shape(1, 14, 2, 256, 64),
    Shape(1, 4, 1, 256, 256),
    Shape(8, 8, 4, 32, 32),
)


def session(body: str, shape: Shape) -> onnxruntime.InferenceSession:
    """Open one of the two forms on one thread."""
    text = body.replace("HEADS", str(shape.heads)).replace("SHARED", str(shape.shared))
    model = parser.parse_model(f"{HEADER} {SIGNATURE} {{ {text} }}")
    constants = {
        "apart": [0, 0, shape.shared, 1, shape.size],
        "times": [1, 1, 1, shape.heads // shape.shared, 1],
        "together": [0, 0, shape.heads * shape.size],
        "zero": [0],
        "one": [1],
    }
    model.graph.initializer.extend(numpy_helper.from_array(np.array(held), name) for name, held in constants.items())
    model.graph.initializer.append(helper.make_tensor("one32", 6, [1], [1]))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def feed(shape: Shape) -> dict[str, Any]:
    """Return random queries, keys and values, and a causal mask."""
    random = np.random.default_rng(0)
    rows = (shape.batch, shape.length)
    hidden = np.triu(np.full((shape.length, shape.length), np.finfo(np.float32).min, np.float32), 1)
    widths = {"query": shape.heads, "key": shape.shared, "value": shape.shared}
    arrays = {
        name: random.standard_normal((*rows, heads * shape.size)).astype(np.float32) for name, heads in widths.items()
    }
    return arrays | {"bias": np.broadcast_to(hidden, (shape.batch, 1, *hidden.shape)).copy()}


def timed(form: onnxruntime.InferenceSession, inputs: dict[str, Any], times: int) -> float:
    """Return the milliseconds of this thread for one run."""
    start = time.thread_time()
    for _ in range(times):
        form.run(None, inputs)
    return (time.thread_time() - start) / times * 1000


def row(shape: Shape) -> list[str]:
    """Return a row of the table."""
    inputs, (repeated, grouped) = feed(shape), (session(body, shape) for body in (REPEATED, GROUPED))
    times = max(3, int(SECONDS * 1000 / timed(repeated, inputs, 1)))
    rounds = [(timed(repeated, inputs, times), timed(grouped, inputs, times)) for _ in range(ROUNDS)]
    off = float(np.abs(repeated.run(None, inputs)[0] - grouped.run(None, inputs)[0]).max())
    milliseconds = [f"{median(column):.3f}" for column in zip(*rounds, strict=True)]
    sizes = [str(number) for number in (shape.batch, shape.heads, shape.shared, shape.length, shape.size)]
    return [*sizes, *milliseconds, f"{median(after / before for before, after in rounds):.2f}", f"{off:.1g}"]


def main() -> None:
    """Print the table."""
    head = ["batch", "heads", "of keys", "length", "size", "repeated, ms", "grouped, ms", "ratio", "difference"]
    print(machine(), table(head, [row(shape) for shape in SHAPES]), sep="\n\n")


if __name__ == "__main__":
    main()
