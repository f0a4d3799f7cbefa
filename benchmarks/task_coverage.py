"""Coverage of the intervals of task metrics: how often a 95 % interval holds the true figure.

    python -m benchmarks.task_coverage                          every case: about ten minutes
    python -m benchmarks.task_coverage --only ece --trials 50   cases whose names begin with ece; quicker, less sure

Examples are drawn from a known distribution; the truth is the metric of many of them. Of the two intervals, `one` is
that of a model's metric, `two` that of its difference from another model's on the same examples.

Probabilities: a model's logit is the true one times its sharpness, with noise of its own. Sharpness 1 is calibrated,
1.5 too sure. Transcripts: words are wrong at a rate that differs between texts. Boxes: the rarest class is in one of
twenty images; whether a box is found, and how well, differs between boxes and hardly between models. Predicted numbers:
labels are log-normal, and errors, of which two models share most, have heavy tails (Student's t with 5 degrees).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orun.core.metrics import Estimate
from orun.measure.metrics import paired
from orun.measure.metrics.bootstrap import resample
from orun.measure.metrics.calibration import brier, calibration_error, log_loss
from orun.measure.metrics.detection import THRESHOLDS, ClassMatches, pool_matches
from orun.measure.metrics.pooled import Pooled, divide
from orun.measure.metrics.regression import mae, r2, rmse

Floats = NDArray[np.float64]
Draw = Callable[[int, np.random.Generator], Sequence[Floats | Pooled]]
"""Draws examples; returns the metric of two models, by example or pooled."""

NOISE = 0.1  # of a model's logit
SHARPNESS = ((1.0, 1.0), (1.5, 1.5), (1.0, 1.1), (1.0, 1.5), (1.5, 1.0))
SHARES = (1.0, 0.5, 0.2, 0.05)  # boxes of each class in an image, on average
FOUND = 0.3  # overlap from which a model finds a box at all
IOUS = np.arange(0.5, 1.0, 0.05)


def draw_probabilities(
    metric: Callable[[Any, Any], Any], sharpness: tuple[float, float], examples: int, random: np.random.Generator
) -> list[Floats | Pooled]:
    """Draw labels, and the logits of two models for class 1."""
    true = random.normal(1.5, 1.5, examples)
    labels = (random.random(examples) < 1 / (1 + np.exp(-true))).astype(np.int64)
    figures = [metric(times * true + NOISE * random.normal(size=examples), labels) for times in sharpness]
    return [figure(np.arange(examples)) if callable(figure) else figure for figure in figures]


def draw_predictions(
    metric: Callable[[Any, Any], Any], errors: tuple[float, float], examples: int, random: np.random.Generator
) -> list[Floats | Pooled]:
    """Draw labels, and the predictions of two models whose errors are so large."""
    labels = random.lognormal(0, 0.5, examples)
    shared = random.standard_t(5, examples)
    figures = [metric(labels + error * (shared + NOISE * random.normal(size=examples)), labels) for error in errors]
    return [figure(np.arange(examples)) if callable(figure) else figure for figure in figures]


def draw_transcripts(rates: tuple[float, float], examples: int, random: np.random.Generator) -> list[Floats | Pooled]:
    """Draw lengths of texts, and the edits of two models that find the same texts hard."""
    lengths = 1 + random.poisson(8, examples)
    hard, drawn = random.gamma(0.5, 2.0, examples), random.random((examples, 60))
    inside = np.arange(60) < lengths[:, None]
    alone = 0.2  # of the words, one model finds hard and the other does not
    figures: list[Floats | Pooled] = []
    for rate in rates:
        own = np.where(random.random((examples, 60)) < alone, random.random((examples, 60)), drawn)
        edits = ((own < rate * hard[:, None]) & inside).sum(axis=1)
        table = np.stack([edits, lengths], axis=1).astype(np.float64)

        def of(rows: NDArray[np.intp], table: Floats = table) -> Callable[[Floats], Floats]:
            return lambda weights: divide(weights @ table[rows, 0], weights @ table[rows, 1])

        figures.append(Pooled(table, of, examples, most=np.inf))
    return figures


def draw_boxes(
    metric: str, skills: tuple[float, float], images: int, random: np.random.Generator
) -> list[Floats | Pooled]:
    """Draw boxes by class, and what two models detect of them."""
    models: list[list[ClassMatches]] = [[] for _ in skills]
    for name, share in enumerate(SHARES):
        held = random.poisson(share, images).astype(np.float64)
        image = np.repeat(np.arange(images), held.astype(int))
        hard = random.normal(size=len(image))
        alarms = np.repeat(np.arange(images), random.poisson(0.5 * share, images))
        unsure = random.normal(-0.5, 1.0, len(alarms))
        for skill, classes in zip(skills, models, strict=True):
            quality = 1 / (1 + np.exp(-(skill - hard + NOISE * random.normal(size=len(hard)))))
            kept = quality > FOUND
            scores = np.concatenate([skill - hard[kept] + random.normal(size=kept.sum()), unsure])
            image_numbers = np.concatenate([image[kept], alarms])
            right = np.zeros((len(IOUS), len(image_numbers)), bool)
            right[:, : kept.sum()] = quality[kept] > IOUS[:, None]
            order = np.argsort(-scores, kind="stable")
            classes.append(ClassMatches(name, image_numbers[order], right[:, order], np.ones_like(right), held))
    pools = [pool_matches(classes, images)(THRESHOLDS[metric], np.arange(images)) for classes in models]
    return [pool for pool in pools if pool is not None]


def cases() -> Iterator[tuple[str, Draw, tuple[int, ...], int]]:
    """Yield the name of each case, its draw, numbers of examples, and how many make the truth."""
    scored: dict[str, Callable[[Any, Any], Any]] = {"brier": brier, "log_loss": log_loss, "ece": calibration_error}
    for name, metric in scored.items():
        for pair in SHARPNESS:
            yield f"{name} {pair}", partial(draw_probabilities, metric, pair), (200, 1000, 5000), 2_000_000
    predicted: dict[str, Callable[[Any, Any], Any]] = {"mae": mae, "rmse": rmse, "r2": r2}
    for name, metric in predicted.items():
        for errors in ((0.2, 0.2), (0.2, 0.21)):
            yield f"{name} {errors}", partial(draw_predictions, metric, errors), (50, 200, 1000), 1_000_000
    for rates in ((0.05, 0.05), (0.05, 0.06), (0.01, 0.01)):
        yield f"wer {rates}", partial(draw_transcripts, rates), (50, 200, 1000), 100_000
    for metric_of_boxes in ("map", "map_50"):
        for skills in ((1.0, 1.0), (1.0, 0.8)):
            yield f"{metric_of_boxes} {skills}", partial(draw_boxes, metric_of_boxes, skills), (150, 500), 300_000


def figure(values: Floats | Pooled) -> float:
    """Return a model's metric of all examples."""
    return values.overall if isinstance(values, Pooled) else float(values.mean())


def intervals(models: Sequence[Floats | Pooled], seed: int) -> tuple[Estimate, Estimate]:
    """Return the interval of the first model's metric, and of its difference from the other's.

    `ece` is resampled here, although orun gives it no interval: the table shows why.
    """
    ours, theirs = models
    if isinstance(ours, Pooled) and isinstance(theirs, Pooled):
        pooled = {"ours": replace(ours, unknown=""), "theirs": replace(theirs, unknown="")}
        resampled = resample(pooled, seed)
        return resampled["ours"].interval, resampled["ours"].compare_with(resampled["theirs"]).difference
    scores = np.asarray(ours), np.asarray(theirs)
    return paired.estimate_interval(scores[0], seed), paired.compare(*scores, seed).difference


def coverage(draw: Draw, examples: int, truth: Sequence[float], trials: int) -> tuple[int, int, int]:
    """Return of how many trials the two intervals hold the truth, and how many have an interval."""
    held, known = np.zeros(2, int), 0
    for trial in range(1, trials + 1):
        estimates = intervals(draw(examples, np.random.default_rng([examples, trial])), trial)
        if np.isinf(estimates[1].low):
            continue
        known += 1
        held += [low <= value <= high for (_, low, high), value in zip(map(_ends, estimates), truth, strict=True)]
    return int(held[0]), int(held[1]), known


def _ends(estimate: Estimate) -> tuple[float, float, float]:
    return estimate.value, estimate.low, estimate.high


def main(command: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--only", default="", help="beginning of the names of cases")
    arguments = parser.parse_args(command)
    print("| case | examples | true difference | one | two | without interval |")
    print("|---|---|---|---|---|---|")
    for name, draw, sizes, many in cases():
        if not name.startswith(arguments.only):
            continue
        ours, theirs = (figure(values) for values in draw(many, np.random.default_rng(0)))
        for examples in sizes:
            first, second, known = coverage(draw, examples, (ours, ours - theirs), arguments.trials)
            shares = [f"{held / known:.1%}" if known else "" for held in (first, second)]
            cells = [name, examples, f"{ours - theirs:.4f}", *shares, arguments.trials - known]
            print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
