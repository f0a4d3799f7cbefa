"""Metrics of all examples by resampling: figures by hand, coverage on data whose truth is known, and the edges."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from orun.core.metrics import Comparison, Estimate
from orun.measure.metrics import bootstrap
from orun.measure.metrics.bootstrap import resample
from orun.measure.metrics.curves import auc, average_precision
from orun.measure.metrics.newcombe import estimate_interval
from orun.measure.metrics.paired import Z, estimate_quantiles, estimate_tango_interval
from orun.measure.metrics.pooled import Pooled, Weighted, f1, precision, recall
from tests.thin import mostly_slow

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


def compared(ours: Pooled | None, theirs: Pooled | None, seed: int = 0) -> tuple[Estimate, Comparison]:
    assert ours is not None
    assert theirs is not None
    resampled = resample({"model": ours, "reference": theirs}, seed)
    return resampled["model"].interval, resampled["model"].compare_with(resampled["reference"])


def ends(estimate: Estimate) -> tuple[float, float, float]:
    return estimate.value, estimate.low, estimate.high


def drawn(seed: int, examples: int, share: float) -> tuple[Labels, Floats, Floats]:
    """Labels of which a share is 1, and normal scores of two models, the first of them a little worse."""
    random = np.random.default_rng(seed)
    labels = (random.random(examples) < share).astype(np.int64)
    theirs = random.standard_normal((examples, 2))
    theirs[np.arange(examples), labels] += 1
    return labels, theirs + 0.5 * random.standard_normal((examples, 2)), theirs


@pytest.mark.parametrize(
    ("metric", "examples", "share"),
    mostly_slow(
        [(metric, *drawn) for metric in (f1, precision, recall, auc) for drawn in ((20, 0.5), (100, 0.5), (100, 0.15))],
        (f1, 100, 0.15),
        (auc, 20, 0.5),
    ),
)
def test_covers_the_truth_about_as_often_as_it_says(
    metric: type[Pooled], examples: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "RESAMPLES", (1000, 1000))
    labels, ours, theirs = drawn(0, 100_000, share)
    truth = metric(ours, labels).overall, metric(theirs, labels).overall  # type: ignore[call-arg,arg-type]
    held = intervals = 0
    for seed in range(1, 41):
        labels, ours, theirs = drawn(seed, examples, share)
        interval, comparison = compared(metric(ours, labels), metric(theirs, labels), seed)  # type: ignore[call-arg,arg-type]
        if math.isfinite(interval.low):
            intervals += 2
            held += interval.low <= truth[0] <= interval.high
            held += comparison.difference.low <= truth[0] - truth[1] <= comparison.difference.high
    assert intervals >= 64
    assert held >= 0.91 * intervals


def test_of_many_normal_scores_it_is_as_wide_as_delongs() -> None:
    """DeLong, DeLong and Clarke-Pearson (1988), Biometrics 44:837-845: the variance by placements."""
    labels, ours, theirs = drawn(3, 1500, 0.4)
    interval, comparison = compared(auc(ours[:, 1], labels), auc(theirs[:, 1], labels))
    placed = [placements(scores[:, 1], labels) for scores in (ours, theirs)]
    for estimate, (positive, negative) in [
        (interval, placed[0]),
        (comparison.difference, tuple(once - other for once, other in zip(*placed, strict=True))),
    ]:
        spread = math.sqrt(positive.var(ddof=1) / len(positive) + negative.var(ddof=1) / len(negative))
        assert estimate.low == pytest.approx(estimate.value - Z * spread, abs=0.15 * spread)
        assert estimate.high == pytest.approx(estimate.value + Z * spread, abs=0.15 * spread)
    assert comparison.method == "paired bootstrap over 1500 examples"
    assert (comparison.count, comparison.changed) == (1500, None)


def placements(scores: Floats, labels: Labels) -> tuple[Floats, Floats]:
    above = scores[labels == 1][:, None] > scores[labels == 0]
    return above.mean(axis=1), above.mean(axis=0)


def test_answers_that_are_all_alike_are_as_doubtful_as_mcnemars_test_has_it() -> None:
    labels = np.repeat([0, 1], [30, 10])
    answers = labels.copy()
    answers[[0, 39]] = [1, 0]
    _, comparison = compared(f1(answers, labels), f1(answers, labels))
    low, high = estimate_tango_interval(0, 0, 10)
    assert ends(comparison.difference) == pytest.approx((0.0, low / 2, high / 2))
    assert comparison.changed == 0
    value = comparison.value
    assert ends(comparison.ratio) == pytest.approx((1.0, 1 + low / 2 / value, 1 + high / 2 / value))


def test_classes_that_are_told_apart_by_all_examples_may_still_not_be_by_others() -> None:
    labels = np.repeat([0, 1], [30, 10])
    scores = labels + np.linspace(0, 0.5, 40)
    interval, comparison = compared(auc(scores, labels), auc(scores**2, labels))
    unseen = Z * Z / (10 + Z * Z)
    assert ends(interval) == pytest.approx((1.0, estimate_interval(1.0, 10, 30)[0], 1.0))
    assert ends(comparison.difference) == pytest.approx((0.0, -unseen, unseen))
    assert (comparison.count, comparison.changed) == (40, 0)


def test_the_interval_of_one_area_is_never_narrower_than_newcombes() -> None:
    """Of several areas, their mean, it is that of the resamples."""
    labels, ours, _ = drawn(4, 300, 0.05)
    scores = ours[:, 1] + 2 * labels
    pooled = auc(scores, labels)
    assert pooled is not None
    low, high = estimate_interval(pooled.overall, int(labels.sum()), int((1 - labels).sum()))
    interval = resample({"model": pooled}, 0)["model"]
    resampled = dataclasses.replace(interval, model=dataclasses.replace(pooled, bounds=None)).interval
    assert ends(interval.interval) == (interval.value, min(low, resampled.low), max(high, resampled.high))
    assert interval.interval.low < resampled.low
    many = auc(np.stack([scores, -scores, scores**2], axis=1), labels + labels * (np.arange(300) % 2))
    precision = average_precision(scores, labels)
    assert many is not None
    assert precision is not None
    assert many.bounds is precision.bounds is f1(ours, labels).bounds is None


def test_how_many_answers_changed() -> None:
    labels = np.repeat([0, 1, 2], 20)
    ours, theirs = labels.copy(), labels.copy()
    ours[:5], theirs[4:10] = 2, 1
    _, comparison = compared(f1(ours, labels), f1(theirs, labels))
    assert comparison.changed == 10
    assert ends(comparison.ratio) == pytest.approx(
        [1 + bound / comparison.value for bound in ends(comparison.difference)]
    )
    assert comparison.difference.low < comparison.difference.value < comparison.difference.high


@pytest.mark.parametrize(("count", "reason"), [(1, "1 example"), (5, "5 examples")])
def test_a_rare_class_tells_nothing(count: int, reason: str) -> None:
    labels = np.repeat([0, 1], [60, count])
    scores = np.random.default_rng(0).random(60 + count)
    interval, comparison = compared(auc(scores, labels), auc(scores**3 - scores, labels))
    assert (interval.low, interval.high) == (-math.inf, math.inf)
    assert (comparison.difference.low, comparison.ratio.high) == (-math.inf, math.inf)
    assert comparison.method == f"{reason} of class 1, too few for an interval, which takes 6"
    labels = np.repeat([0, 1], [60, 6])
    interval, _ = compared(auc(np.arange(66.0) % 7, labels), auc(np.arange(66.0) % 5, labels))
    assert math.isfinite(interval.low)


@pytest.mark.parametrize(("count", "reason"), [(0, "0 predictions"), (1, "1 prediction"), (5, "5 predictions")])
def test_a_class_that_is_rarely_predicted_tells_nothing_of_its_precision(count: int, reason: str) -> None:
    labels = np.repeat([0, 1], [60, 40])
    pooled = precision(np.repeat([0, 1], [100 - count, count]), labels, only=1)
    interval, comparison = compared(pooled, precision(labels, labels, only=1))
    assert (interval.low, interval.high) == (-math.inf, math.inf)
    assert comparison.method == f"{reason} of class 1, too few for an interval, which takes 6"


def test_resamples_that_lack_a_class_are_left_out() -> None:
    labels = np.repeat([0, 1], [60, 6])
    scores = np.random.default_rng(0).random((2, 66))
    _, comparison = compared(auc(scores[0], labels), auc(scores[1], labels))
    start, _, rest = comparison.method.partition(", ")
    lost, _, reason = rest.partition(" ")
    assert start == "paired bootstrap over 66 examples"
    assert reason == "of 2000 resamples left out"
    assert 1 <= int(lost) <= 15  # of 2000 times (60 / 66) ** 66, which is 4
    assert math.isfinite(comparison.difference.low)


def test_nothing_is_told_where_most_resamples_have_no_figure() -> None:
    def nothing(rows: NDArray[np.intp]) -> Weighted:
        assert len(rows) == 8
        return lambda weights: np.where(np.arange(len(weights)) % 8, np.nan, 1.0)

    pooled = Pooled(np.arange(8.0)[:, None], nothing, 8, resamples=200)
    resampled = resample({"model": pooled}, 0)["model"]
    assert resampled.interval == Estimate(1.0, -math.inf, math.inf)
    assert resampled.compare_with(resampled).method == "paired bootstrap over 8 examples, 175 of 200 resamples left out"
    classes = dataclasses.replace(resampled, model=dataclasses.replace(pooled, rarest="cat"))
    assert classes.interval == Estimate(1.0, -math.inf, math.inf)


def test_the_same_seed_gives_the_same_interval_whatever_the_order() -> None:
    labels, ours, theirs = drawn(5, 80, 0.4)
    order = np.random.default_rng(0).permutation(80)
    for metric in (f1, auc):
        once = compared(metric(ours, labels), metric(theirs, labels), 4)
        assert once == compared(metric(ours, labels), metric(theirs, labels), 4)
        assert once != compared(metric(ours, labels), metric(theirs, labels), 5)
        again = compared(metric(ours[order], labels[order]), metric(theirs[order], labels[order]), 4)
        assert again[1].difference.value == pytest.approx(once[1].difference.value)


@pytest.mark.parametrize("metric", [f1, auc])
def test_many_examples_are_resampled_in_pieces(metric: type[Pooled], monkeypatch: pytest.MonkeyPatch) -> None:
    labels, ours, theirs = drawn(5, 80, 0.4)
    undivided = compared(metric(ours, labels), metric(theirs, labels))  # type: ignore[call-arg,arg-type]
    monkeypatch.setattr(bootstrap, "CHUNK", 200)
    pieces = compared(metric(ours, labels), metric(theirs, labels))  # type: ignore[call-arg,arg-type]
    assert pieces[1].difference.low == pytest.approx(undivided[1].difference.low, abs=1e-9)


def test_much_work_is_resampled_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "WORK", 300_000)
    labels, ours, _ = drawn(5, 400, 0.4)
    for examples, resamples in ((50, 2000), (200, 1500), (400, 1000)):
        pooled = auc(ours[:examples, 1], labels[:examples])
        assert pooled is not None
        assert len(resample({"model": pooled}, 0)["model"].values) == resamples
    few = f1(ours, labels)  # of which there are but four kinds of examples
    assert len(resample({"model": few}, 0)["model"].values) == 2000


def test_what_resampling_makes_too_high_is_put_right() -> None:
    """Sixty of 100 resamples lie below the value, so that the quantiles are those of 2 z(0.6) -/+ 1.96."""
    steps = np.arange(1000)[:, None] / 1000.0
    pooled = Pooled(steps, lambda _: lambda weights: np.full(len(weights), 0.5995), 1000)
    estimate = bootstrap.Resampled(pooled, 0.5995, np.linspace(0.0, 0.999, 1000)).interval
    assert ends(estimate) == pytest.approx((0.5995, 0.073, 0.993), abs=1.5e-3)
    alike = bootstrap.Resampled(pooled, 0.5, np.full(1000, 0.5)).interval
    assert ends(alike) == (0.5, 0.5, 0.5)
    far = bootstrap.Resampled(pooled, 2.0, np.linspace(0.0, 0.999, 1000)).interval
    assert ends(far) == pytest.approx((2.0, 0.515, 2.0), abs=1.5e-3)  # an interval holds its value


def test_positions_that_changed_are_of_one_example() -> None:
    labels = np.tile([0, 1, 1, 0], (20, 1))
    ours = labels.copy()
    ours[3, 1] = ours[7, :] = 0
    _, comparison = compared(f1(ours, labels), f1(labels, labels))
    assert comparison.changed == 2


def test_the_interval_of_f1_is_never_narrower_than_the_rarest_class_allows() -> None:
    labels = np.repeat([0, 1], [600, 10])
    answers = labels.copy()
    answers[0] = 1  # of the common class
    interval, comparison = compared(f1(answers, labels), f1(labels, labels))
    unseen = Z * Z / (10 + Z * Z) / 2
    assert interval.low <= interval.value - unseen
    assert comparison.difference.low == pytest.approx(comparison.difference.value - unseen)
    assert comparison.difference.high == pytest.approx(comparison.difference.value + unseen)


def test_the_quantiles_are_of_as_few_examples_as_the_rarest_class_has() -> None:
    spread = np.linspace(4.0, 6.0, 1001)
    for fewest in (6, 30, 1000):
        pooled = Pooled(np.arange(1000.0)[:, None], lambda _: lambda weights: np.full(len(weights), 5.0), fewest)
        estimate = bootstrap.Resampled(pooled, 5.0, spread).interval
        assert ends(estimate) == ends(
            estimate_quantiles(5.0, spread, fewest)
        )  # as it is above 1, where no class is known


@pytest.mark.parametrize("counts", [[5, 1, 1, 1], [1, 1, 1, 1], [30, 10, 20]])
def test_each_kind_is_drawn_as_often_as_there_are_examples_of_it(counts: list[int]) -> None:
    weights = np.concatenate(list(bootstrap.draw_weights(np.array(counts), 4000, 0)))
    assert weights.shape == (4000, len(counts))
    assert set(weights.sum(axis=1).tolist()) == {float(sum(counts))}
    assert weights.mean(axis=0).tolist() == pytest.approx(counts, rel=0.08)
    share = np.array(counts) / sum(counts)
    assert weights.var(axis=0).tolist() == pytest.approx((sum(counts) * share * (1 - share)).tolist(), rel=0.15)


@pytest.mark.parametrize("metric", [f1, auc])
def test_resamples_lie_around_what_all_examples_say(metric: type[Pooled]) -> None:
    """Examples that are answered alike and labelled otherwise are of two kinds."""
    labels, ours, _ = drawn(8, 300, 0.4)
    resampled = resample({"model": metric(ours.round(1), labels)}, 0)["model"]  # type: ignore[call-arg,arg-type]
    assert resampled.values.mean() == pytest.approx(resampled.value, abs=0.01)
    assert 0.015 < resampled.values.std() < 0.04
