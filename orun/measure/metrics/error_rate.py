"""Word and character error rate of texts: edits over the length of the references, counted over all examples."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from orun.errors import UsageError
from orun.measure.dataset import Values
from orun.measure.metrics.pooled import Pooled, Rows, Weighted, divide

SPLIT: Mapping[str, Callable[[str], Sequence[str]]] = {"wer": str.split, "cer": str.strip}
"""By metric what is counted: words between white space; characters (code points), but no white space at the ends."""

LABEL_TITLE = "the label"
HINT = (
    "for a model that returns tokens or their scores: `text: {tokenizer: FOLDER}`, or a function that returns texts, "
    "`postprocess: file.py:function`"
)


def read_texts(metric: str, values: Values, subject: str) -> list[str]:
    """Return one text for each example.

    Args:
        metric: name of the metric, for errors.
        values: texts `[n]` or `[n, 1]`.
        subject: name of the values, for errors: `LABEL_TITLE`, or an output.

    Raises:
        UsageError: if an example has no text or several.
    """
    texts = []
    for example, value in enumerate(values):
        array = np.asarray(value)
        text = array.item() if array.size == 1 else None
        if not isinstance(text, str):
            form = repr(text) if array.size == 1 else f"{array.dtype} {list(array.shape)}"
            raise UsageError(
                f"{metric} needs one text for each example",
                why=f"{subject} of example {example} is {form:.80}",
                hint="" if subject == LABEL_TITLE else HINT,
            )
        texts.append(text)
    return texts


def pool_edits(
    metric: str, texts: Sequence[str], references: Sequence[str], normalize: Callable[[str], str]
) -> Callable[[Rows], Pooled | None]:
    """Return a function of indices of examples to their error rate, as jiwer's `wer` and `cer`.

    It returns None for examples with empty references. The insertions, deletions and substitutions of all examples are
    divided by the length of all references. So an example with an empty reference counts by its insertions alone, and
    the rate may exceed 1.

    Args:
        metric: `wer` or `cer`.
        texts: what the model answers, `[n]`.
        references: the right texts, `[n]`.
        normalize: applied to both.

    Raises:
        UsageError: if all references are empty.
    """
    from rapidfuzz.distance import Levenshtein

    split = SPLIT[metric]
    right = [split(normalize(text)) for text in references]
    answers = [split(normalize(text)) for text in texts]
    edits = np.array([Levenshtein.distance(*pair) for pair in zip(right, answers, strict=True)], dtype=np.float64)
    lengths = np.array([len(text) for text in right], dtype=np.float64)
    if not lengths.any():
        raise UsageError(
            f"{metric}: every label is an empty text", why="errors are divided by the length of the labels"
        )

    def pool(examples: Rows) -> Pooled | None:
        def weigh_rows(rows: Rows) -> Weighted:
            chosen = examples[rows]
            return lambda weights: divide(weights @ edits[chosen], weights @ lengths[chosen])

        if not lengths[examples].any():
            return None
        return Pooled(np.stack([edits, lengths], axis=1)[examples], weigh_rows, len(examples), most=math.inf)

    return pool
