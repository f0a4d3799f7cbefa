"""Search for the few of many that must stay, by trying halves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence


def needed(items: Sequence[str], good: Callable[[Collection[str]], bool]) -> list[str]:
    """Items that must stay for the rest to go: a part that cannot go with what went before is tried by its halves.

    As in the automatic mixed precision of onnxconverter-common. Of `k` items that must stay among `n` it takes about
    `2 k log2(n)` trials. Where items only matter together, what is found depends on the order of the items.

    Args:
        items: in an order in which neighbours belong together.
        good: whether all is well when just these stay.
    """
    staying = list(items)
    parts = [list(items)]
    while parts:
        part = parts.pop()
        going = set(part)
        rest = [item for item in staying if item not in going]
        if good(rest):
            staying = rest
        elif len(part) > 1:
            middle = len(part) // 2
            parts += [part[middle:], part[:middle]]
    return staying
