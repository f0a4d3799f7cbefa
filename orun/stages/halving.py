"""Search for the few items of many that must stay, by trying halves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence


def find_needed(items: Sequence[str], good: Callable[[Collection[str]], bool]) -> list[str]:
    """Return items that must stay so that all others can be removed.

    Parts are removed one after the other; a part that cannot be removed is split in halves. The automatic mixed
    precision of onnxconverter-common works the same way. If `k` of `n` items must stay, it takes about `2 k log2(n)`
    trials. If items only matter together, the result depends on their order.

    Args:
        items: in an order in which neighbours belong together.
        good: whether the result is good when only these items stay.
    """
    staying = list(items)
    parts = [list(items)]
    while parts:
        part = parts.pop()
        removed = set(part)
        rest = [item for item in staying if item not in removed]
        if good(rest):
            staying = rest
        elif len(part) > 1:
            middle = len(part) // 2
            parts += [part[middle:], part[:middle]]
    return staying
