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
MOST_CAUSES = 3


def minimize(changes: Sequence[T], test: Test[T]) -> list[T]:
    """Return changes that are bad together, none of which can be left out alone.

    `test` says what some of them are, in their order; `unresolved` if they do not go together.
    """
    kept = list(changes)
    parts = 2
    while len(kept) > 1:
        bounds = [len(kept) * number // parts for number in range(parts + 1)]
        chunks = [kept[low:high] for low, high in pairwise(bounds) if high > low]
        smaller = next((chunk for chunk in chunks if test(chunk) == "bad"), None)
        if smaller is not None:
            kept, parts = list(smaller), 2
            continue
        rests = ([change for change in kept if change not in chunk] for chunk in chunks)
        # With two chunks the rests are the chunks, which were tested.
        rest = next((rest for rest in rests if parts > 2 and test(rest) == "bad"), None)  # noqa: PLR2004
        if rest is not None:
            kept, parts = rest, max(parts - 1, 2)
        elif parts < len(kept):
            parts = min(2 * parts, len(kept))
        else:
            break
    return kept


def find_causes(changes: Sequence[T], test: Test[T]) -> list[list[T]]:
    """Return at most `MOST_CAUSES` disjoint minimal sets of changes, each of which is bad by itself."""
    causes: list[list[T]] = []
    left = list(changes)
    while left and len(causes) < MOST_CAUSES and (not causes or test(left) == "bad"):
        causes.append(minimize(left, test))
        left = [change for change in left if change not in causes[-1]]
    return causes
