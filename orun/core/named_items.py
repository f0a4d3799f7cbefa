"""Items of a plan, a run or a stage by their names, as in a mapping."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from orun.core.unknown_key import UnknownKey

T = TypeVar("T")


class NamedItems(Generic[T]):
    """Mixin of a record whose items have names: `record[name]`, `name in record`, and names to iterate over."""

    def list_items(self) -> Mapping[str, T]:
        """Return the items by name, in their order."""
        raise NotImplementedError

    def describe(self) -> tuple[str, str]:
        """Return what the record and one of its items are called in messages: `run 20260921-141320-1f3c`, `stage`."""
        raise NotImplementedError

    def __getitem__(self, name: str) -> T:
        """Return an item by its name; raise UnknownKey, a KeyError, for an unknown one."""
        items = self.list_items()
        if name in items:
            return items[name]
        raise UnknownKey(*self.describe(), name, items)

    def __contains__(self, name: object) -> bool:
        return name in self.list_items()

    def __iter__(self) -> Iterator[str]:
        return iter(self.list_items())

    def keys(self) -> list[str]:
        """Return the names, in their order."""
        return list(self)
