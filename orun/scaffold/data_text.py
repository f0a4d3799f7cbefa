"""Text of the Python file that yields a model's examples: made up until the user fills it in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orun.errors import UsageError
from orun.scaffold.model_facts import InputFact, ModelFacts

EXAMPLES = 64
LENGTH = 32  # size of a dynamic axis in made-up examples
FUNCTION = "examples"
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


def data_text(file: str, facts: ModelFacts) -> str:
    """Return the text of the file.

    Args:
        file: name of the pipeline file.
        facts: the model.

    Raises:
        UsageError: when examples of a scikit-learn estimator cannot be made up.
    """
    inputs = "\n".join(f"            {line}," for line in _entries(facts))
    return HEAD.format(file=file, function=FUNCTION, examples=EXAMPLES, inputs=inputs)


def _entries(facts: ModelFacts) -> Iterator[str]:
    if facts.form == "sklearn":
        if facts.columns == ("X",) and not facts.features:
            raise UsageError(
                f"{facts.source} does not say how many columns it takes",
                why="it takes texts, or objects",
                hint=f"write a function that returns examples: orun init {facts.source} --data data.py:examples",
            )
        shape = f"(n, {facts.features})" if facts.columns == ("X",) else "n"
        for column in facts.columns:
            yield f"{column!r}: random.normal(size={shape}).astype(np.float32)"
        return
    for item in facts.inputs or (facts.graph.inputs if facts.graph else ()):
        yield f"{item.name!r}: {_values(item)}"


def _values(item: InputFact) -> str:
    """Return an expression for the values of an input; the first axis counts the examples."""
    shape = _shape(item.shape)
    if item.dtype == "object":
        return f'np.full({shape}, "text", dtype=object)'
    if item.fill != "random":
        return f"np.ones({shape}, np.{item.dtype})"
    if item.dtype == "bool":
        return f"random.random({shape}) < 0.5"
    if item.dtype.startswith(("int", "uint")):
        return f"random.integers(0, {1 if item.high is None else item.high}, {shape}, np.{item.dtype}, endpoint=True)"
    return f"random.normal(size={shape}).astype(np.{item.dtype})"


def _shape(axes: Sequence[int | str]) -> str:
    """Return sizes as a tuple: `(n, 3, 224, 224)`. A fixed first axis other than 1 is no batch: `n` goes before it."""
    rest = axes[1:] if axes and (isinstance(axes[0], str) or axes[0] == 1) else axes
    sizes = ["n", *(str(axis if isinstance(axis, int) else LENGTH) for axis in rest)]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
