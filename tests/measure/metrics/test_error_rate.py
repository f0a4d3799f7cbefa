"""Word and character error rates: jiwer's figures, for all texts and for resampled ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from orun.errors import UsageError
from orun.measure.metrics.bootstrap import resample
from orun.measure.metrics.error_rate import LABEL_TITLE, pool_edits, read_texts
from orun.measure.metrics.pooled import Pooled

jiwer = pytest.importorskip("jiwer")

RIGHT = [
    "the quick brown fox",
    "",  # silence
    "jumps  over\tthe lazy dog ",
    "naïve café",
    "nai\u0308ve",  # the letter as two code points
    "これは 日本語 です",
    "😀 smile",
    "one",
]
HEARD = [
    "the quick brown fox",
    "noise here",
    "jump over lazy dog dog",
    "naive cafe",
    "na\u00efve",
    "これわ 日本語 です",
    "😃 smile",
    "",
]


def pooled(metric: str, heard: list[str], right: list[str], normalize: Callable[[str], str] = str) -> Pooled:
    pooled_edits = pool_edits(metric, heard, right, normalize)(np.arange(len(right)))
    assert pooled_edits is not None
    return pooled_edits


def of_library(metric: str, right: list[str], heard: list[str]) -> float:
    spaced = [" ".join(text.split()) if metric == "wer" else text for text in right]  # jiwer knows blanks alone
    rate: float = getattr(jiwer, metric)(spaced, heard)
    return rate


@pytest.mark.parametrize("metric", ["wer", "cer"])
def test_rates_are_those_of_jiwer(metric: str) -> None:
    rate = pooled(metric, HEARD, RIGHT)
    assert rate.overall == pytest.approx(of_library(metric, RIGHT, HEARD))
    counts = np.random.default_rng(0).multinomial(8, np.full(8, 1 / 8), 5)
    expected = [
        of_library(metric, [str(t) for t in np.repeat(RIGHT, row)], [str(t) for t in np.repeat(HEARD, row)])
        for row in counts
    ]
    assert rate.of(np.arange(8))(counts.astype(np.float64)) == pytest.approx(expected)


def test_the_rate_of_all_texts_is_no_mean_of_rates() -> None:
    rate = pooled("wer", ["a", "a b c d"], ["b", "a b c d"])
    assert rate.overall == 1 / 5
    assert (
        pooled("cer", ["ab", "\u00e9"], ["ab", "e\u0301"]).overall == 2 / 4
    )  # code points, unless they are normalized


def test_insertions_alone_make_a_rate_above_1() -> None:
    rate = pooled("wer", ["a b c d", "e"], ["a", ""])
    assert rate.overall == 4
    estimate = resample({"model": pooled("wer", ["a b c d", "e"] * 20, ["a", ""] * 20)}, 0)["model"].interval
    assert 0 < estimate.low < 4 < estimate.high < math.inf


def test_equal_texts_do_not_prove_that_two_models_are_equal() -> None:
    models = {role: pooled("wer", ["a b"] * 20, ["a b"] * 20) for role in ("model", "baseline")}
    resampled = resample(models, 0)
    assert resampled["model"].interval.low == 0
    assert resampled["model"].interval.high == pytest.approx(0.161, abs=0.001)
    comparison = resampled["model"].compare_with(resampled["baseline"])
    assert (comparison.changed, comparison.method) == (0, "paired bootstrap over 20 examples")
    assert (comparison.difference.low, comparison.difference.high) == pytest.approx((-0.161, 0.161), abs=0.001)


def test_normalization_is_that_of_model_and_labels() -> None:
    assert pooled("wer", ["Hello, World"], ["hello world"]).overall == 1
    assert pooled("wer", ["Hello World"], ["hello world"], str.lower).overall == 0


def test_examples_whose_references_are_empty() -> None:
    pool = pool_edits("wer", ["a", "b"], ["", "b"], str)
    assert pool(np.array([0])) is None
    with pytest.raises(UsageError, match="wer: every label is an empty text"):
        pool_edits("wer", ["a"], [" "], str)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (np.zeros((2, 5, 30), np.float32), "the output logits of example 0 is float32 [5, 30]"),
        (np.array([7, 8]), "the output logits of example 0 is 7"),
        (np.array([["a", "b"]]), "the output logits of example 0 is <U1 [2]"),
        (np.array(["a", None], dtype=object), "the output logits of example 1 is None"),
    ],
)
def test_what_is_no_text(values: Any, why: str) -> None:
    with pytest.raises(UsageError) as error:
        read_texts("wer", values, "the output logits")
    assert f"{error.value}" == (
        f"wer needs one text for each example\n  {why}\n  hint: for a model that returns tokens or their scores: "
        "`text: {tokenizer: FOLDER}`, or a function that returns texts, `postprocess: file.py:function`"
    )


def test_texts_of_a_model_and_of_a_dataset() -> None:
    assert read_texts("wer", np.array([["a"], ["b c"]], dtype=object), "the output y") == ["a", "b c"]
    with pytest.raises(UsageError, match="the label of example 0 is 3"):
        read_texts("wer", np.array([3]), LABEL_TITLE)
