"""Figures of two models' outputs, by hand-worked examples."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from scipy.special import rel_entr, softmax

from orun.measure.metrics import fidelity
from orun.measure.metrics.fidelity import BY_CLASS, SQNR_LIMIT, SUMMARIES, Difference, concatenate

# of softmax([3, 4]) from softmax([4, 3]), and of softmax([0, 2]) from softmax([0, 1])
KL = (math.tanh(0.5), math.log((1 + math.e) / (1 + math.e**2)) + math.e**2 / (1 + math.e**2))

compare = partial(fidelity.compare, families=tuple(BY_CLASS))


def values(difference: Difference) -> dict[str, float]:
    return {name: summary(difference) for name, summary in SUMMARIES.items()}


def test_identical_outputs() -> None:
    output = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    assert values(compare(output, output)) == {
        "cosine": 1.0,
        "cosine.mean": 1.0,
        "cosine.min": 1.0,
        "max_abs": 0.0,
        "relative": 0.0,
        "sqnr": SQNR_LIMIT,
        "agreement": 1.0,
        "agreement_at_5": 1.0,
        "kl": 0.0,
        "kl.max": 0.0,
    }


def test_by_hand() -> None:
    reference = np.array([[3.0, 4.0], [0.0, 2.0]])
    output = np.array([[4.0, 3.0], [0.0, 1.0]])
    difference = compare(output, reference)
    assert difference.cosine.tolist() == pytest.approx([24 / 25, 1.0])
    assert difference.max_abs.tolist() == [1.0, 1.0]
    assert difference.agreement.tolist() == [0.0, 1.0]
    assert difference.sqnr.tolist() == pytest.approx([10 * math.log10(25 / 2), 10 * math.log10(4 / 1)])
    assert values(difference) == pytest.approx(
        {
            "cosine": 0.98,
            "cosine.mean": 0.98,
            "cosine.min": 0.96,
            "max_abs": 1.0,
            "relative": 0.5,
            "sqnr": 10 * math.log10(29 / 3),
            "agreement": 0.5,
            "agreement_at_5": 1.0,
            "kl": (KL[0] + KL[1]) / 2,
            "kl.max": KL[0],
        }
    )


def test_zero_vectors() -> None:
    difference = compare(np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]]))
    assert difference.cosine.tolist() == [1.0, 0.0, 0.0]
    assert difference.sqnr.tolist() == [SQNR_LIMIT, 0.0, -SQNR_LIMIT]


def test_cosine_never_leaves_its_range() -> None:
    output = np.random.default_rng(0).standard_normal((100, 384)).astype(np.float32)
    assert compare(output, output * np.float32(3)).cosine.max() <= 1.0
    assert compare(output, -output).cosine.min() >= -1.0


def test_half_precision_does_not_overflow() -> None:
    output = np.full((1, 64), 60000, np.float16)
    assert compare(output, output).cosine.tolist() == [1.0]


def test_every_position_of_an_example_counts() -> None:
    reference = np.array([[[1.0, 0.0], [0.0, 1.0]]])
    output = np.array([[[1.0, 0.0], [1.0, 0.0]]])
    assert compare(output, reference).agreement.tolist() == [0.5]


def test_integers_agree_when_they_are_equal() -> None:
    assert compare(np.array([1, 2, 3]), np.array([1, 0, 3])).agreement.tolist() == [1.0, 0.0, 1.0]


def test_concatenated_and_reordered() -> None:
    reference = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    output = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 0.0]])
    parts = concatenate((compare(output[2:], reference[2:]), compare(output[:2], reference[:2])))
    at_once = compare(output, reference)
    assert parts.take(np.array([1, 2, 0])).cosine.tolist() == at_once.cosine.tolist()


def test_relative_is_by_the_reference() -> None:
    difference = compare(np.array([[1.0, 5.0], [0.0, 0.0], [0.5, 0.0]]), np.array([[1.0, 4.0], [0.0, 0.0], [0.0, 0.0]]))
    assert difference.relative.tolist() == [0.25, 0.0, 1.0]


def test_five_classes_of_many() -> None:
    reference = np.arange(10.0)[None]
    output = reference.copy()
    output[0, 5] = -1  # the fifth of the reference, and the first of the others takes its place
    assert compare(output, reference).agreement_at_5.tolist() == [0.8]
    assert compare(reference, reference).agreement_at_5.tolist() == [1.0]


def test_divergence_of_probabilities_and_of_logits() -> None:
    random = np.random.default_rng(0)
    ours, theirs = random.standard_normal((2, 20, 3, 7))
    expected = rel_entr(softmax(theirs, axis=-1), softmax(ours, axis=-1)).sum(axis=-1).mean(axis=1)
    assert compare(ours, theirs).kl == pytest.approx(expected, rel=1e-9)
    assert compare(softmax(ours, axis=-1), softmax(theirs, axis=-1)).kl == pytest.approx(expected, rel=1e-9)


def test_divergence_stays_finite_and_is_nothing_for_classes() -> None:
    certain = np.array([[1.0, 0.0]])
    assert compare(certain[:, ::-1], certain).kl.tolist() == pytest.approx([-math.log(1e-12)])
    assert compare(np.array([1, 2]), np.array([1, 0])).kl.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("shape", [(3,), (3, 1), (3, 2, 2, 1)])
def test_a_single_score_has_no_class(shape: tuple[int, ...]) -> None:
    reference = np.random.default_rng(0).random(shape)
    difference = compare(1 - reference, reference)
    for family in BY_CLASS:
        assert np.isnan(difference.measure_each(family)).tolist() == [True] * 3, family
    assert difference.max_abs.max() == np.abs(1 - 2 * reference).max()


@pytest.mark.parametrize("shape", [(2,), (2, 1), (2, 1, 1)])
def test_a_single_number_has_no_angle(shape: tuple[int, ...]) -> None:
    """It had a cosine of 1 whatever the model answered, unless the sign was another one."""
    reference = np.array([0.0, 4.0]).reshape(shape)
    difference = compare(reference * 1.1, reference)
    assert np.isnan(difference.cosine).tolist() == [True, True]
    assert SUMMARIES["sqnr"](difference) == pytest.approx(20)


def test_single_numbers_among_longer_outputs_are_left_out() -> None:
    """A detector finds several objects in one image, and one in another."""
    several = compare(np.array([[3.0, 4.0]]), np.array([[4.0, 3.0]]))
    both = concatenate((several, compare(np.array([[-1.0]]), np.array([[1.0]]))))
    for metric in ("cosine.mean", "cosine.min", "agreement", "kl", "kl.max"):
        assert SUMMARIES[metric](both) == SUMMARIES[metric](several), metric


def test_only_the_wanted_comparisons_of_classes_are_computed() -> None:
    difference = fidelity.compare(np.eye(3), np.eye(3), ("cosine", "agreement"))
    assert np.isnan(difference.kl).all()
    assert np.isnan(difference.agreement_at_5).all()
    assert difference.agreement.tolist() == difference.cosine.tolist() == [1.0, 1.0, 1.0]


def test_an_output_without_any_number_is_compared() -> None:
    none = np.zeros((1, 0), np.float32)  # the scores of no detections
    assert compare(none, none).cosine.tolist() == [1.0]
