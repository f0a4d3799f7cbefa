"""Choice of a rank for each layer: the least harm for the numbers that a model keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


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


def order_steps(sizes: Sequence[int], options: Sequence[Option]) -> list[Option]:
    """Return steps that each give a layer other factors, those first that cost the least harm for a number saved.

    Of each layer, only options on the convex hull of numbers and harm are among them. So every beginning of the list is
    the least harm for the numbers that it leaves.

    Args:
        sizes: how many numbers the weight of each layer holds.
        options: options of all layers.
    """
    steps: list[tuple[float, Option]] = []
    for layer, size in enumerate(sizes):
        steps += _descend(size, [option for option in options if option.layer == layer])
    return [option for _, option in sorted(steps, key=lambda step: step[0])]


def _descend(size: int, options: Sequence[Option]) -> Iterator[tuple[float, Option]]:
    """Yield the options of a layer on the hull, from its weight as it is downwards, with harm for a number saved."""
    numbers, harm = size, 0.0

    def cost(option: Option) -> float:
        return (option.harm - harm) / (numbers - option.numbers)

    while smaller := [option for option in options if option.numbers < numbers]:
        best = min(smaller, key=lambda option: (cost(option), option.numbers))
        yield cost(best), best
        numbers, harm = best.numbers, best.harm


def take(steps: Sequence[Option], count: int) -> Mapping[int, Option]:
    """Return the option of each changed layer after so many steps."""
    return {option.layer: option for option in steps[:count]}


def sizes_after(sizes: Sequence[int], steps: Sequence[Option]) -> Iterator[int]:
    """Yield how many numbers all layers hold: before the first step, and after each."""
    now = list(sizes)
    total = sum(now)
    yield total
    for option in steps:
        total += option.numbers - now[option.layer]
        now[option.layer] = option.numbers
        yield total
