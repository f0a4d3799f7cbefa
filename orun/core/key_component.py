"""Component of a cache key, or of what a stage was seen to use.

A run with nothing to do imports this module: the kinds stand in one of their own, `orun.core.component_kinds`.
"""

from __future__ import annotations

from collections.abc import Iterable

from orun.core.serialization import Record


class KeyComponent(Record, frozen=True, order=True):
    """One fact that the result of a stage depends on.

    Attributes:
        kind: what sort of fact it is: a `ComponentKind`.
        subject: what it is about: a parameter, a port, a package; empty for a kind of which there is one.
        owner: the target that it belongs to, where that is not the stage's own; else empty.
        value: a version, a digest, or the JSON of a value.
    """

    kind: str
    subject: str = ""
    owner: str = ""
    value: str = ""

    @property
    def identity(self) -> tuple[str, str, str]:
        """All of it but the value: what two keys are compared by."""
        return self.kind, self.subject, self.owner


Components = tuple[KeyComponent, ...]


def find_value(components: Iterable[KeyComponent], kind: str, subject: str = "") -> str | None:
    """Return the value of the stage's own component of a kind and subject; None if there is none."""
    return next((item.value for item in components if item.identity == (kind, subject, "")), None)


def index_by_subject(components: Iterable[KeyComponent], kind: str) -> dict[str, str]:
    """Return subject and value of each component of a kind that belongs to the stage itself."""
    return {item.subject: item.value for item in components if item.kind == kind and not item.owner}
