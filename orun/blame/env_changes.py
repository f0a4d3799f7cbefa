"""Environment variables that differ between two runs and whose values in both are known here.

A run stores digests of values, because values may be private. A value is known if its digest is that of an unset
variable, of the variable in this process, or of `ORUN_GOOD_<name>` or `ORUN_BAD_<name>`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from orun.blame.changes import VARIABLES, Change, FixedDifference, map_values
from orun.blame.run_snapshot import RunSnapshot
from orun.environment.env_vars import set_variable
from orun.fs.observed_state import ABSENT, digest_value
from orun.planning.facts import UNSET

PREFIXES = ("ORUN_GOOD_", "ORUN_BAD_")  # of variables with a variable's value in the good and in the bad run

Values = tuple[str | None, str | None]  # in the good and the bad run; None if not set


@dataclass(frozen=True)
class Variables:
    """Variables that differ.

    Attributes:
        values: values in both runs, by name, where they are known.
        unknown: for every other variable, the variables to set: `ORUN_GOOD_MODE` for the value of `MODE` in the good
            run.
    """

    values: Mapping[str, Values] = field(default_factory=dict)
    unknown: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def between(cls, good: RunSnapshot, bad: RunSnapshot, stages: Collection[str]) -> Variables:
        """Return the variables that stages of both runs depend on and whose values differ."""
        values: dict[str, Values] = {}
        unknown: dict[str, list[str]] = {}
        for name, digests in sorted(_find_differing(good, bad, stages).items()):
            good_values, bad_values = (
                _find_matching_values(name, prefix, digest) for prefix, digest in zip(PREFIXES, digests, strict=True)
            )
            if good_values and bad_values:
                values[name] = (good_values[0], bad_values[0])
            else:
                known = (good_values, bad_values)
                unknown[name] = [
                    f"{prefix}{name}" for prefix, matches in zip(PREFIXES, known, strict=True) if not matches
                ]
        return cls(values, unknown)

    @property
    def changes(self) -> tuple[Change, ...]:
        """Changes of the variables whose values are known."""
        return tuple(
            Change("variable", name, "", digest_value(name, old), digest_value(name, new))
            for name, (old, new) in self.values.items()
        )

    @property
    def wanted(self) -> tuple[str, ...]:
        """Variables to set so that every change could be tried."""
        return tuple(name for names in self.unknown.values() for name in names)

    def filter_fixed(self, differences: Sequence[FixedDifference]) -> list[FixedDifference]:
        """Return the differences without the variables that can be tried; other variables get the reason."""
        kept = []
        for item in differences:
            name = item.variable
            if name in self.unknown:
                kept.append(replace(item, why="; ".join(map(_explain_unknown, self.unknown[name]))))
            elif name not in self.values:
                kept.append(replace(item, why="only one of the runs read it") if name else item)
        return kept

    @contextmanager
    def apply_to(self, chosen: Collection[Change]) -> Iterator[None]:
        """Set each variable to the good run's value, or to the bad run's for the chosen changes."""
        new = {change.name for change in chosen if change.sort == "variable"}
        with ExitStack() as stack:
            for name, values in self.values.items():
                stack.enter_context(set_variable(name, values[name in new]))
            yield


def _find_differing(good: RunSnapshot, bad: RunSnapshot, stages: Collection[str]) -> dict[str, tuple[str, str]]:
    """Return both digests of each variable that a stage read in both runs and that differs; `ABSENT` if not set."""
    digests: dict[str, tuple[str, str]] = {}
    for stage in stages:
        old, new = map_values(good, stage), map_values(bad, stage)
        for identity in old.keys() & new.keys():
            kind, name, _ = identity
            if kind in VARIABLES and old[identity] != new[identity]:
                was, now = (ABSENT if digest == UNSET else digest for digest in (old[identity], new[identity]))
                digests[name] = (was, now)
    return digests


def _find_matching_values(name: str, prefix: str, digest: str) -> list[str | None]:
    values = (None, os.environ.get(prefix + name), os.environ.get(name))
    return [value for value in values if digest_value(name, value) == digest]


def _explain_unknown(name: str) -> str:
    if name in os.environ:
        return f"{name} is not the value of that run"
    return f"only its digest is stored: set {name}"
