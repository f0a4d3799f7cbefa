"""Differences between two keys of a stage, in words."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from orun.core.run_record import NEVER_RUN
from orun.core.serialization import foreign_json
from orun.pipeline.model import Stage
from orun.planning.cache_key import MODULES, OWN, UNSET

HISTORY, VERDICTS = "history", "verdicts"  # parts of the key of a stage that is told what led to it
UPSTREAM = ("input ", HISTORY, f"the {HISTORY} of ", f"the {VERDICTS} of ")  # how reasons begin that lie before a stage
SEEN = ("read", "listed")  # first words of what a stage was seen to look at: files, and folders by their names
LONGEST = 60  # characters of a value that fit on a line beside its twin
BEFORE = 12  # of them, that two long values have in common before they differ
SHOWN = 3  # differences between two values
ABSENT = object()  # stands for a value that one of two does not have


def key_changes(stage: Stage, then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What differs between the parts of a stage's key when it ran last and those of this time, one sentence each.

    Of what it was seen to read besides as well, where that is among them.
    """
    if not then:
        return [NEVER_RUN]
    pairs = [(name, then.get(name), now.get(name)) for name in dict.fromkeys([*now, *then])]
    led = _names(then.get(HISTORY)) ^ _names(now.get(HISTORY))
    differing = [(name, old, new) for name, old, new in pairs if old != new and not _told(name, led)]
    kinds = [_kind(parts) for parts in (then, now)]
    if "" in kinds or kinds[0] == kinds[1]:
        return list(dict.fromkeys(_sentence(stage, *change) for change in differing))
    further = (_sentence(stage, *change) for change in differing if not _follows(*change))
    return [f"uses: {kinds[0]} -> {kinds[1]}", *dict.fromkeys(further)]


def _kind(parts: Mapping[str, str]) -> str:
    """What `uses` names; empty where the parts do not say."""
    kind, file = parts.get("kind", ""), parts.get(f"file of {OWN}")
    return f"{file}:{kind}" if file and kind else kind


def _follows(name: str, old: str | None, new: str | None) -> bool:
    """Whether a part differs because another kind has other parameters, tools and the like."""
    own = name in ("kind", "stage code", f"file of {OWN}", f"content of {OWN}")
    return own or (None in (old, new) and name.partition(" ")[0] not in ("input", "environment"))


def _told(name: str, led: Collection[str]) -> bool:
    """Whether another part says it: that a stage is new in a history, or no longer in it."""
    return name.startswith((f"{HISTORY} of ", f"{VERDICTS} of ")) and name.partition(" of ")[2] in led


def _names(history: str | None) -> set[str]:
    """The stages of a history; names hold commas, and no spaces."""
    return set(history.split(", ")) if history else set()


def _sentence(stage: Stage, name: str, old: str | None, new: str | None) -> str:
    sort, _, rest = name.partition(" ")
    if sort == "input":
        source = f" (from {stage.needs[rest]})" if rest in stage.needs else ""
        return f"input {rest} changed{source}"
    if sort == "content":
        reference = next((one for one in stage.references if one.parameter == name.removeprefix("content of ")), None)
        return f"{Path(reference.path).as_posix() if reference else rest} changed"
    if name == "stage code":
        return f"the code of {stage.uses} changed"
    if sort == "environment":
        counts = {(None, UNSET): "counts, and is not set", (UNSET, None): "no longer counts, and was not set"}
        return f"environment variable {rest} {counts.get((old, new), 'changed')}"
    if name.startswith((f"{HISTORY} of ", f"{VERDICTS} of ")):
        return f"the {name} changed"
    if sort in SEEN:
        return f"{rest} changed"
    if name == MODULES:
        return f"modules come from other folders: PYTHONPATH was {_shown(old)}, and is {_shown(new)}"
    if max(len(old or ""), len(new or "")) <= LONGEST:
        return f"{name}: {_shown(old)} -> {_shown(new)}"
    if name == HISTORY:
        return f"{name}: {led}" if (led := _led(old, new)) else f"{name} is in another order"
    found = [f"{where}: {_from(a, b)} -> {_from(b, a)}" for where, a, b in _leaves(name, _read(old), _read(new))]
    return _some(found) if found else f"{name} is in another order"


def _led(old: str | None, new: str | None) -> str:
    """Which stages no longer lead to one, and which do now."""
    then, now = _names(old), _names(new)
    gone, come = (
        [name for name in (text or "").split(", ") if name in names]
        for text, names in ((old, then - now), (new, now - then))
    )
    return "; ".join(f"{word} {_some(names)}" for word, names in (("without", gone), ("with", come)) if names)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _leaves(name: str, old: Any, new: Any) -> Iterator[tuple[str, str, str]]:
    """Where two values differ, as deep as they are of one form, with the text of each."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            yield from _leaves(f"{name}.{key}", old.get(key, ABSENT), new.get(key, ABSENT))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _leaves(f"{name}[{number}]", one, other)
    elif type(old) is not type(new) or old != new:
        yield name, _written(old), _written(new)


def _read(text: str | None) -> Any:
    """The value that a part of a key is the JSON of; its text where it is none."""
    if text is None:
        return ABSENT
    try:
        return foreign_json(text.encode(errors="surrogatepass"))
    except ValueError:
        return text


def _written(value: Any) -> str:
    return _shown(None) if value is ABSENT else json.dumps(value, ensure_ascii=False)


def _from(text: str, other: str) -> str:
    """A text as it is shown beside another: of long ones from a little before where they differ."""
    if len(text) <= LONGEST:
        return text
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(text, other, strict=False))
    start = max(sum(1 for _ in alike) - BEFORE, 0)
    return ("..." if start else "") + _shown(text[start:])


def _shown(text: str | None) -> str:
    if text is None:
        return "not set"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
