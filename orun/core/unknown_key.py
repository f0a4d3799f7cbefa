"""Error of a lookup by name in a plan, a run or a stage."""

from __future__ import annotations

from collections.abc import Iterable


class UnknownKey(KeyError):
    """Key that a plan, a run or a stage does not have, with the closest known one.

    It is a KeyError and no OrunError, because plans and runs are looked into as mappings are.

    Args:
        owner: the object: `run 20260921-141320-1f3c`.
        noun: `stage` or `metric`.
        name: the unknown name, or what was no name.
        names: the known names.
    """

    def __init__(self, owner: str, noun: str, name: object, names: Iterable[str]) -> None:
        super().__init__(name)
        self.owner, self.noun, self.name, self.names = owner, noun, name, tuple(names)

    def __str__(self) -> str:
        from difflib import get_close_matches  # lazy: only errors need it

        close = get_close_matches(str(self.name), self.names, n=1)
        few = len(self.names) <= 2  # noqa: PLR2004 - `a or b`
        known = " or ".join(self.names) if few else f"one of {', '.join(self.names)}"
        expected = f"expected {known or f'no {self.noun}: it has none'}"
        return f"{self.owner} has no {self.noun} {self.name!r}\n  {f'did you mean {close[0]}?' if close else expected}"
