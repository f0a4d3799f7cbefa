"""Environment variables that differ between two runs, as far as their values in both are known here.

A run keeps digests of values and never a value, which may be private. A value is known when its digest is that of a
variable that is not set, or of what this process was given: as the variable itself, or as `ORUN_GOOD_<name>` and
`ORUN_BAD_<name>`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from orun.blame.changes import VARIABLES, Change, Fixed, values_of
from orun.blame.run_snapshot import Side
from orun.environment.env_vars import variable
from orun.fs.observed_state import ABSENT, value_digest
from orun.planning.cache_key import UNSET

GIVEN = ("ORUN_GOOD_", "ORUN_BAD_")  # before the name of a variable: its value in the good run, and in the bad one

Values = tuple[str | None, str | None]  # in the good and the bad run; None when it was not set


@dataclass(frozen=True)
class Variables:
    """The variables that differ.

    Attributes:
        values: of those whose values in both runs are known, by name.
        unknown: of the others, what would tell: `ORUN_GOOD_MODE` for what `MODE` was in the good run.
    """

    values: Mapping[str, Values] = field(default_factory=dict)
    unknown: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def between(cls, good: Side, bad: Side, stages: Collection[str]) -> Variables:
        """The variables that stages of both runs rest on, and that had another value in each."""
        values: dict[str, Values] = {}
        unknown: dict[str, list[str]] = {}
        for name, digests in sorted(_differing(good, bad, stages).items()):
            found = [_candidates(name, given, digest) for given, digest in zip(GIVEN, digests, strict=True)]
            if all(found):
                values[name] = (found[0][0], found[1][0])
            else:
                unknown[name] = [f"{given}{name}" for given, known in zip(GIVEN, found, strict=True) if not known]
        return cls(values, unknown)

    @property
    def changes(self) -> tuple[Change, ...]:
        """Those that can be mixed, one each."""
        return tuple(
            Change("variable", name, "", value_digest(name, old), value_digest(name, new))
            for name, (old, new) in self.values.items()
        )

    @property
    def wanted(self) -> tuple[str, ...]:
        """All that would have to be set, so that every variable could be mixed."""
        return tuple(name for names in self.unknown.values() for name in names)

    def left(self, others: Sequence[Fixed]) -> list[Fixed]:
        """Differences without the variables that are mixed; the rest of these with what keeps them from it."""
        found = []
        for one in others:
            name = one.variable
            if name in self.unknown:
                found.append(replace(one, why="; ".join(map(_why, self.unknown[name]))))
            elif name not in self.values:
                found.append(replace(one, why="only one of the runs looked at it") if name else one)
        return found

    @contextmanager
    def within(self, chosen: Collection[Change]) -> Iterator[None]:
        """Within it each variable has the good run's value, or the bad one's where that is chosen."""
        new = {one.name for one in chosen if one.sort == "variable"}
        with ExitStack() as stack:
            for name, values in self.values.items():
                stack.enter_context(variable(name, values[name in new]))
            yield


def _differing(good: Side, bad: Side, stages: Collection[str]) -> dict[str, tuple[str, str]]:
    """Digests of the variables that a stage looked at in both runs, and found otherwise; `ABSENT` where not set."""
    found: dict[str, tuple[str, str]] = {}
    for stage in stages:
        old, new = values_of(good, stage), values_of(bad, stage)
        for identity in old.keys() & new.keys():
            kind, name, _ = identity
            if kind in VARIABLES and old[identity] != new[identity]:
                found[name] = (_plain(old[identity]), _plain(new[identity]))
    return found


def _plain(digest: str) -> str:
    return ABSENT if digest == UNSET else digest


def _candidates(name: str, given: str, digest: str) -> list[str | None]:
    """The values with that digest."""
    values = (None, os.environ.get(given + name), os.environ.get(name))
    return [one for one in values if value_digest(name, one) == digest]


def _why(given: str) -> str:
    """Why a value is not known."""
    return f"{given} is not what it was" if given in os.environ else f"only a digest is kept of it: set {given}"
