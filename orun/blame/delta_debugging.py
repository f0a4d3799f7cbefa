"""Delta debugging: the fewest changes that turn good into bad.

A. Zeller and R. Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE Transactions on Software
Engineering 28 (2002), 183-200: `ddmin`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal, TypeVar

T = TypeVar("T")
Outcome = Literal["good", "bad", "unresolved"]
Test = Callable[[Sequence[T]], Outcome]


def minimal(changes: Sequence[T], test: Test[T]) -> list[T]:
    """Changes that are bad together, of which none can be left out alone.

    Args:
        changes: that are bad all together.
        test: what some of them are, in their order; `unresolved` where they do not go together.
    """
    found = list(changes)
    parts = 2
    while len(found) > 1:
        chunks = _chunks(found, parts)
        smaller = next((chunk for chunk in chunks if test(chunk) == "bad"), None)
        if smaller is not None:
            found, parts = list(smaller), 2
            continue
        rests = ([one for one in found if one not in chunk] for chunk in chunks)
        rest = next((rest for rest in rests if parts > 2 and test(rest) == "bad"), None)  # noqa: PLR2004 - else twice
        if rest is not None:
            found, parts = rest, max(parts - 1, 2)
        elif parts < len(found):
            parts = min(2 * parts, len(found))
        else:
            break
    return found


def causes(changes: Sequence[T], test: Test[T], most: int = 3) -> list[list[T]]:
    """Sets of changes each of which is bad by itself and has nothing in common with the others.

    Args:
        changes: that are bad all together.
        test: as for `minimal`.
        most: sets to look for.
    """
    found: list[list[T]] = []
    left = list(changes)
    while left and len(found) < most and (not found or test(left) == "bad"):
        found.append(minimal(left, test))
        left = [one for one in left if one not in found[-1]]
    return found


def _chunks(items: Sequence[T], count: int) -> list[Sequence[T]]:
    """As many parts of nearly equal size."""
    bounds = [len(items) * number // count for number in range(count + 1)]
    return [items[low:high] for low, high in pairwise(bounds) if high > low]
