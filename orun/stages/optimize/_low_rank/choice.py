"""Choice of the layers to factorise and of their ranks, within a budget of error or of size."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from orun.measure.dataset import Array
from orun.stages.contract import Context
from orun.stages.optimize._low_rank.factors import Factors, factorize
from orun.stages.optimize._low_rank.layers import Layer
from orun.stages.optimize._low_rank.probe import Probe
from orun.text.units import show

PROBED = 0.01  # energy of a layer's error, relative to its outputs, near which its harm is measured
PROBES = 8  # examples that show the harm of a layer


@dataclass(frozen=True)
class Option:
    """Way to store the weight of a layer.

    Attributes:
        layer: index of the layer.
        rows: rows of the matrix that is factorised.
        rank: its rank.
        numbers: how many numbers it stores.
        harm: error of the model that it is expected to cause, as an energy.
    """

    layer: int
    rows: int
    rank: int
    numbers: int
    harm: float


@dataclass(frozen=True, eq=False)
class Choice:
    """Layers with their factors, and the steps from all weights as they are to the smallest factors.

    Factors are by the index of a layer and the rows of the factorised matrix; `order_steps` made the steps.
    """

    context: Context
    layers: Sequence[Layer]
    factors: Mapping[tuple[int, int], Factors]
    steps: Sequence[Option]

    def collect_factors(self, count: int) -> dict[int, tuple[Array, Array]]:
        """Return the left and right factor of each layer that so many steps change, by its index."""
        pairs = {}
        for index, option in take(self.steps, count).items():
            factors = self.factors[index, option.rows]
            pairs[index] = factors.left[:, : option.rank], factors.right[: option.rank]
        return pairs

    def compute_weights(self, count: int) -> dict[str, Array]:
        """Return the products of the factors after so many steps, by the name of the weight."""
        return {
            self.layers[index].weight: _restore_weight(
                self.layers[index], self.factors[index, option.rows], option.rank
            )
            for index, option in take(self.steps, count).items()
        }

    def count_for_size(self, proportion: float, numbers: int) -> int:
        """Return how many steps leave at most a proportion of the numbers that the model holds.

        Raises:
            StageFailed: when that changes no layer, or all steps leave more.
        """
        held = [layer.array.size for layer in self.layers]
        sizes = [numbers - sum(held) + size for size in iter_sizes(held, self.steps)]
        count = next((count for count, size in enumerate(sizes) if size <= proportion * numbers), None)
        if count is None:
            raise self.context.failed(
                f"factors cannot make the model as small as {show(proportion, 'ratio')}",
                why=f"at their lowest ranks {show(sizes[-1] / numbers, 'ratio')} of its numbers are left; the others "
                "are not in layers that can be factorised",
                hint="raise `size`; the log says which layers keep their weights",
            )
        if not count:
            raise self.context.failed(f"`size: {show(proportion, 'ratio')}` leaves nothing to do")
        return count

    def count_for_error(self, error: float, probe: Probe) -> int:
        """Return how many steps stay within an error, by bisection: the error grows with the steps, or nearly so.

        Raises:
            StageFailed: when no step does.
        """
        counts = range(1, len(self.steps) + 1)
        count = bisect_right(counts, error, key=lambda count: probe.measure_error(self.compute_weights(count)))
        if not count:
            first = self.steps[0]
            raise self.context.failed(
                f"no layer can be factorised within an error of {show(error, 'ratio')}",
                why=f"{self.layers[first.layer].title}, which harms least, causes "
                f"{show(probe.measure_error(self.compute_weights(1)), 'ratio')} at rank {first.rank}",
                hint="raise `error`, or leave the stage out: the weights have no low rank",
            )
        return count

    def describe(self, count: int) -> list[str]:
        """Return a line on each layer after so many steps."""
        chosen = take(self.steps, count)
        return [
            f"{layer.title}: rank {chosen[index].rank}, {chosen[index].numbers} of {layer.array.size} numbers"
            if index in chosen
            else f"{layer.title}: as it is"
            for index, layer in enumerate(self.layers)
        ]


def prepare(context: Context, layers: Sequence[Layer], probe: Probe | None, *, whitened: bool) -> Choice:
    """Factorise each layer at every rank, measure the harm, and order the steps.

    Without a probe, errors of all layers count alike. If `whitened`, factors suit the inputs that the layers see, which
    needs a probe.
    """
    grams = probe.collect_grams(context.progress) if probe and whitened else [None] * len(layers)
    factors: dict[tuple[int, int], Factors] = {}
    options = []
    for index, (layer, gram) in enumerate(zip(layers, grams, strict=True)):
        context.progress(index, len(layers), "layers factorised")
        if gram is not None and not np.isfinite(gram).all():
            raise context.failed(f"the inputs of {layer.title} are not finite for every example")
        ranks = {rows: layer.compute_max_rank(rows) for rows in layer.list_row_counts()}
        own = {rows: factorize(layer.to_matrix(), rows, most, gram) for rows, most in ranks.items() if most}
        factors |= {(index, rows): item for rows, item in own.items()}
        harm = 1.0 if probe is None else _measure_harm(layer, list(own.values()), probe)
        context.log.info("%s: error at the outputs of the model is %.3g times its own", layer.title, harm)
        options += [
            Option(index, rows, rank, item.count(rank), harm * error)
            for rows, item in own.items()
            for rank, error in zip(item.ranks, item.errors, strict=True)
        ]
    return Choice(context, layers, factors, order_steps([layer.array.size for layer in layers], options))


def _measure_harm(layer: Layer, factors: Sequence[Factors], probe: Probe) -> float:
    """Return the energy of the model's error relative to that of the layer's: about the same at every rank."""
    tried = [
        (item, rank, error)
        for item in factors
        for rank, error in zip(item.ranks, item.errors, strict=True)
        if error
    ]  # fmt: skip
    if not tried:
        return 1.0
    item, rank, error = min(tried, key=lambda candidate: abs(candidate[2] - PROBED))
    return probe.measure_error({layer.weight: _restore_weight(layer, item, rank)}, PROBES) ** 2 / error


def _restore_weight(layer: Layer, factors: Factors, rank: int) -> Array:
    return layer.restore(factors.multiply(rank, layer.list_row_counts()[0]))


def order_steps(sizes: Sequence[int], options: Sequence[Option]) -> list[Option]:
    """Return steps that each give a layer other factors, those first that cost the least harm for a number saved.

    Of each layer, only options on the convex hull of numbers and harm are among them. So every beginning of the list is
    the least harm for the numbers that it leaves. `sizes` are the numbers that the weight of each layer holds.
    """
    steps: list[tuple[float, Option]] = []
    for layer, size in enumerate(sizes):
        steps += _descend(size, [option for option in options if option.layer == layer])
    return [option for _, option in sorted(steps, key=lambda step: step[0])]


def _descend(size: int, options: Sequence[Option]) -> Iterator[tuple[float, Option]]:
    """Yield the options of a layer on the hull, from its weight as it is downwards, with harm for a number saved."""
    numbers, harm = size, 0.0

    def compute_cost(option: Option) -> float:
        return (option.harm - harm) / (numbers - option.numbers)

    while smaller := [option for option in options if option.numbers < numbers]:
        best = min(smaller, key=lambda option: (compute_cost(option), option.numbers))
        yield compute_cost(best), best
        numbers, harm = best.numbers, best.harm


def take(steps: Sequence[Option], count: int) -> Mapping[int, Option]:
    """Return the option of each changed layer after so many steps."""
    return {option.layer: option for option in steps[:count]}


def iter_sizes(sizes: Sequence[int], steps: Sequence[Option]) -> Iterator[int]:
    """Yield how many numbers all layers hold: before the first step, and after each."""
    now = list(sizes)
    total = sum(now)
    yield total
    for option in steps:
        total += option.numbers - now[option.layer]
        now[option.layer] = option.numbers
        yield total
