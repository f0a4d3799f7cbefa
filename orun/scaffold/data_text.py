"""Text of the Python file that yields a model's examples: made up until the user fills it in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from orun.core.dynamic_axes import find_batch_index, is_unbatched
from orun.core.serialization import replace
from orun.scaffold.model_facts import ColumnFact, InputFact, ModelFacts

EXAMPLES = 64
LENGTH = 32  # size of a dynamic axis in made-up examples
WORDS_IN_A_TEXT = 8  # in a made-up text
WIDE = 16  # columns of a matrix up to which each has numbers of its own
MATRIX = "X"
FUNCTION = "examples"
Declaration: TypeAlias = str | Mapping[str, Any]
"""A dataset as a pipeline file declares it: a path, `file.py:function`, or a mapping with its preparation."""
HEAD = '''"""Examples that {file} is judged by: MADE UP. Replace them by your own.

Return a hundred or more typical examples, with their labels where there are some: then `measure/accuracy`
can measure `accuracy` and `f1`, too.
"""

import numpy as np

import orun


def {function}() -> orun.Dataset:
    random = np.random.default_rng(0)
    n = {examples}
    return orun.Dataset(
        {{
{inputs}
        }},
        # labels=np.array([...]),  # what is right for each example: its class
    )
'''


def name_columns(count: int) -> list[str]:
    """Return names for the columns of an array that an estimator was fitted on: `x0`, `x1` and so on."""
    return [f"x{place}" for place in range(count)]


def format_data(file: str, facts: ModelFacts) -> str:
    """Return the text of the file beside this pipeline file."""
    inputs = "\n".join(f"            {line}" for line in _iter_entries(facts))
    return HEAD.format(file=file, function=FUNCTION, examples=EXAMPLES, inputs=inputs)


def _iter_entries(facts: ModelFacts) -> Iterator[str]:
    """Yield the lines of the dictionary of inputs."""
    if not facts.columns:
        for item in _list_inputs(facts):
            yield f"{item.name!r}: {_format_values(item, _list_example_axes(item, facts))},"
    elif facts.is_matrix:
        yield f"{MATRIX!r}: {_format_matrix(facts.columns)},{_guess(facts.columns[0])}"
    else:
        for column in facts.columns:
            yield f"{column.name!r}: {_format_column(column)},{_guess(column)}"


def _list_inputs(facts: ModelFacts) -> Sequence[InputFact]:
    """Return the inputs as declared; where that sets no largest value, with the one that a look-up table sets."""
    in_graph = facts.graph.inputs if facts.graph else ()
    highs = {item.name: item.high for item in in_graph}
    declared = [replace(item, high=highs.get(item.name)) if item.high is None else item for item in facts.inputs]
    return declared or in_graph


def _guess(column: ColumnFact) -> str:
    """Return a comment on a column that nothing describes."""
    return f"  # a guess: {column.doubt} does not say what it takes" if column.doubt else ""


def _format_matrix(columns: Sequence[ColumnFact]) -> str:
    """Return an expression for the values of all columns, `[n, columns]`."""
    if all(column.kind == "number" for column in columns):
        centers, spreads = [column.center for column in columns], [column.spread for column in columns]
        if len(columns) > WIDE:
            centers, spreads = [sum(centers) / len(columns)] * 2, [sum(spreads) / len(columns)] * 2
        return f"random.normal({_shorten(centers)}, {_shorten(spreads)}, (n, {len(columns)})).astype(np.float32)"
    numbers = "" if columns[0].holds_text else ".astype(np.float32)"
    return f"np.stack([{', '.join(map(_format_column, columns))}], axis=1){numbers}"


def _shorten(numbers: list[float]) -> str:
    """Return a list, or its only number if all are equal."""
    return f"{numbers[0]:g}" if len({*numbers}) == 1 else f"[{', '.join(f'{number:g}' for number in numbers)}]"


def _format_column(column: ColumnFact) -> str:
    """Return an expression for the values of a column, `[n]`."""
    if column.kind == "text":
        vocabulary = [str(value) for value in column.values] or ["some", "words"]
        return f'np.array([" ".join(random.choice({vocabulary!r}, {WORDS_IN_A_TEXT})) for _ in range(n)], object)'
    if column.kind == "category" and column.values:
        return f"random.choice({[*column.values]!r}, n)"
    return f"random.normal({column.center:g}, {column.spread:g}, n).astype(np.float32)"


def _list_example_axes(item: InputFact, facts: ModelFacts) -> list[int]:
    """Return the axes of an example: without the batch if that is in front, else all, with a batch of 1."""
    sizes = [axis if isinstance(axis, int) else facts.choose_size(axis, LENGTH) for axis in item.shape]
    if not is_unbatched(item.shape):
        return sizes[1:]
    if place := find_batch_index(item.shape):
        sizes[place] = 1
    return sizes


def _format_values(item: InputFact, axes: Sequence[int]) -> str:
    """Return an expression for the values of an input for `n` examples of these axes."""
    shape = f"({', '.join(['n', *map(str, axes)])}{'' if axes else ','})"
    if item.dtype == "object":
        return f'np.full({shape}, "text", dtype=object)'
    if item.fill != "random":
        return f"np.ones({shape}, np.{item.dtype})"
    if item.dtype == "bool":
        return f"random.random({shape}) < 0.5"
    if item.dtype.startswith(("int", "uint")):
        return f"random.integers(0, {1 if item.high is None else item.high}, {shape}, np.{item.dtype}, endpoint=True)"
    return f"random.normal(size={shape}).astype(np.{item.dtype})"
