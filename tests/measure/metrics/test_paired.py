"""Paired comparisons: published figures, exact coverage, and what happens at the edges."""

from __future__ import annotations

import math

import numpy as np
import pytest

from orun.core.metrics import UNBOUNDED, Comparison, Estimate
from orun.measure.metrics.paired import Z, compare, compare_exact, estimate_interval, estimate_tango_interval
from tests.thin import mostly_slow


def scores(right: int, wrong: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.repeat([1.0, 0.0], [right, wrong])


class TestTango:
    def test_the_example_of_its_paper(self) -> None:
        # Tango (1998), section 6.1: 44 pairs, none better and one worse, lower limit of the 90 % interval
        low, _ = estimate_tango_interval(0, 1, 44, z=1.645)
        assert round(low, 3) == -0.096

    def test_airway_reactivity(self) -> None:
        # Fagerland, Lydersen and Laake (2014): pairs 1, 1, 7, 12
        low, high = estimate_tango_interval(1, 7, 21)
        assert (round(low, 3), round(high, 3)) == (-0.517, -0.026)

    def test_at_no_difference_it_is_mcnemars_test(self) -> None:
        for better in range(8, 40):
            shown = estimate_tango_interval(better, 8, 200)[0] > 0
            assert shown == ((better - 8) ** 2 / (better + 8) > Z * Z), better

    def test_swapping_the_models_mirrors_it(self) -> None:
        low, high = estimate_tango_interval(9, 4, 100)
        assert estimate_tango_interval(4, 9, 100) == pytest.approx((-high, -low), abs=1e-12)

    @pytest.mark.parametrize(("better", "worse", "examples"), [(0, 0, 1), (1, 0, 1), (5, 0, 5), (0, 5, 5), (2, 3, 5)])
    def test_holds_the_estimate_and_stays_in_range(self, better: int, worse: int, examples: int) -> None:
        low, high = estimate_tango_interval(better, worse, examples)
        assert -1 <= low <= (better - worse) / examples <= high <= 1

    def test_no_change_in_a_few_examples_proves_little(self) -> None:
        low, high = estimate_tango_interval(0, 0, 30)
        assert (round(low, 3), round(high, 3)) == (-0.114, 0.114)

    @pytest.mark.parametrize(("p_better", "p_worse"), [(0.02, 0.02), (0.05, 0.02), (0.1, 0.15), (0.01, 0.04)])
    def test_covers_the_truth_as_often_as_it_says(self, p_better: float, p_worse: float) -> None:
        examples, truth, covered = 60, p_better - p_worse, 0.0
        for better in range(examples + 1):
            for worse in range(examples + 1 - better):
                chance = _multinomial(examples, better, worse, p_better, p_worse)
                if chance < 1e-9:
                    continue
                low, high = estimate_tango_interval(better, worse, examples)
                covered += chance * (low <= truth <= high)
        assert 0.93 <= covered <= 0.99


def _multinomial(examples: int, better: int, worse: int, p_better: float, p_worse: float) -> float:
    ways = math.comb(examples, better) * math.comb(examples - better, worse)
    return ways * p_better**better * p_worse**worse * (1 - p_better - p_worse) ** (examples - better - worse)


class TestRightOrWrong:
    def test_counts_who_changed_sides(self) -> None:
        ours = np.array([1, 1, 0, 1, 0, 1, 0, 0], float)
        theirs = np.array([1, 0, 1, 1, 0, 0, 0, 1], float)
        low, high = estimate_tango_interval(2, 2, 8)
        assert compare(ours, theirs, seed=0) == Comparison(
            value=0.5,
            ratio=Estimate(1.0, (0.5 + low) / 0.5, (0.5 + high) / 0.5),
            difference=Estimate(0.0, low, high),
            method="McNemar's score interval over 8 examples, 2 better and 2 worse",
            count=8,
            changed=4,
        )

    def test_nothing_right_in_either(self) -> None:
        comparison = compare(scores(0, 10), scores(0, 10), seed=0)
        assert comparison.ratio.value == 1.0
        assert comparison.difference.value == 0.0

    def test_nothing_right_in_the_other_alone(self) -> None:
        comparison = compare(scores(3, 7), scores(0, 10), seed=0)
        assert comparison.ratio.value == UNBOUNDED
        assert comparison.difference.value == 0.3

    def test_the_interval_of_one_model_is_wilsons(self) -> None:
        # Newcombe (1998), Statistics in Medicine 17:857-872, table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29
        for right, total, low, high in [
            (81, 263, 0.2553, 0.3662),
            (15, 148, 0.0624, 0.1605),
            (0, 20, 0.0, 0.1611),
            (1, 29, 0.0061, 0.1718),
        ]:
            estimate = estimate_interval(scores(right, total - right), seed=0)
            assert (estimate.value, round(estimate.low, 4), round(estimate.high, 4)) == (right / total, low, high)


class TestBootstrap:
    def test_agrees_with_theory_for_normal_differences(self) -> None:
        generator = np.random.default_rng(7)
        theirs = generator.random(400)
        ours = theirs + 0.02 + 0.1 * generator.standard_normal(400)
        comparison = compare(ours, theirs, seed=1)
        change = ours - theirs
        spread = 1.96 * change.std(ddof=1) / 20
        assert comparison.method == "paired bootstrap over 400 examples"
        assert comparison.count == 400
        assert comparison.difference.value == pytest.approx(change.mean())
        assert comparison.difference.low == pytest.approx(change.mean() - spread, abs=0.1 * spread)
        assert comparison.difference.high == pytest.approx(change.mean() + spread, abs=0.1 * spread)
        assert comparison.ratio.value == pytest.approx(ours.mean() / theirs.mean())
        assert comparison.ratio.low < comparison.ratio.value < comparison.ratio.high

    def test_examples_that_do_not_tell_two_models_apart_prove_as_little_as_right_ones_that_stay_right(self) -> None:
        ranks = 1 / np.array([1, 2, 1, 4, 3, 1, 1, 2, 1, 1], float)
        low, high = estimate_tango_interval(0, 0, 10)
        mean = float(ranks.mean())
        assert compare(ranks, ranks.copy(), seed=0) == Comparison(
            value=mean,
            ratio=Estimate(1.0, (mean + low) / mean, (mean + high) / mean),
            difference=Estimate(0.0, low, high),
            method="paired over 10 examples, none of which tells the two apart",
            count=10,
            changed=0,
        )
        scores = np.array([31.0, 12.5, 77.0, 40.0, 8.0, 55.0])  # nobody knows how far such a score can fall
        assert compare(scores, scores.copy(), seed=0).difference == Estimate(0.0, 0.0, 0.0)

    @pytest.mark.parametrize(("examples", "share"), [(20, 0.01), (20, 0.03), (60, 0.01)])
    def test_rare_changes_of_rank_are_not_ruled_out_by_their_absence(self, examples: int, share: float) -> None:
        """Resampled alone, 21, 44 and 43 of 100 intervals would hold the truth: those of samples with a change."""
        generator, held = np.random.default_rng(1), 0
        truth = -share * float(np.mean([1, 1 / 2, 1 / 3, 1 / 4])) / 2
        for _ in range(40):
            theirs = 1 / generator.integers(1, 5, examples).astype(float)
            ours = np.where(generator.random(examples) < share, theirs / 2, theirs)
            estimate = compare(ours, theirs, seed=0).difference
            held += estimate.low <= truth <= estimate.high
        assert held >= 38

    @pytest.mark.parametrize(("examples", "missed"), mostly_slow([(6, 0.09), (8, 0.07), (12, 0.06)], (6, 0.09)))
    def test_few_examples_are_as_doubtful_as_students_t_has_it(self, examples: int, missed: float) -> None:
        """Resampled as they are, 14, 11 and 8 of 100 intervals would miss."""
        drawn = np.random.default_rng(examples).standard_normal((600, examples))
        intervals = [estimate_interval(sample, seed=0) for sample in drawn]
        assert np.mean([sample.low > 0 or sample.high < 0 for sample in intervals]) <= missed

    def test_pairing_removes_what_both_models_share(self) -> None:
        generator = np.random.default_rng(3)
        theirs = generator.random(200)
        ours = theirs - 0.01
        comparison = compare(ours, theirs, seed=0)
        assert comparison.difference.low == pytest.approx(-0.01, abs=1e-12)
        assert comparison.difference.high == pytest.approx(-0.01, abs=1e-12)
        assert estimate_interval(ours, seed=0).low < ours.mean() - 0.02

    def test_none_and_all_right_are_bounds(self) -> None:
        for total in range(1, 60):
            none, estimate = (estimate_interval(scores(right, total - right), seed=0) for right in (0, total))
            assert (none.value, none.low, estimate.value, estimate.high) == (0, 0, 1, 1)

    def test_the_same_seed_gives_the_same_interval(self) -> None:
        ours, theirs = np.random.default_rng(5).random((2, 50))
        assert compare(ours, theirs, seed=4) == compare(ours, theirs, seed=4)
        assert compare(ours, theirs, seed=4) != compare(ours, theirs, seed=5)

    def test_many_examples_are_resampled_in_pieces(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ours, theirs = np.random.default_rng(5).random((2, 50))
        comparison = compare(ours, theirs, seed=4)
        monkeypatch.setattr("orun.measure.metrics.paired.CHUNK", 170)
        assert compare(ours, theirs, seed=4) == comparison

    def test_a_reference_of_zeros_keeps_figures_finite(self) -> None:
        comparison = compare(np.array([0.25, 0.5] * 3), np.zeros(6), seed=0)
        assert comparison.ratio == Estimate(UNBOUNDED, UNBOUNDED, UNBOUNDED)

    @pytest.mark.parametrize("count", [1, 2, 5])
    def test_few_examples_tell_nothing(self, count: int) -> None:
        """Resampled, one example would pass for a figure without any doubt."""
        ours, theirs = np.full(count, 0.25), np.full(count, 0.5)
        comparison = compare(ours, theirs, seed=0)
        assert (comparison.ratio, comparison.difference) == (
            Estimate(0.5, -math.inf, math.inf),
            Estimate(-0.25, -math.inf, math.inf),
        )
        assert comparison.method == f"{count} example{'s' if count > 1 else ''}, too few for an interval, which takes 6"
        assert estimate_interval(ours, seed=0) == Estimate(0.25, -math.inf, math.inf)
        enough = compare(np.full(6, 0.25), np.full(6, 0.5), seed=0)
        assert enough.difference == Estimate(-0.25, -0.25, -0.25)


def test_exact_figures_have_no_interval() -> None:
    assert compare_exact(0.9, 0.6) == Comparison(
        value=0.6,
        ratio=Estimate(0.9 / 0.6, 0.9 / 0.6, 0.9 / 0.6),
        difference=Estimate(0.9 - 0.6, 0.9 - 0.6, 0.9 - 0.6),
        method="exact",
        count=0,
    )
