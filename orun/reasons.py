"""What differs between two keys of a stage, in words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from orun.key import MODULES
from orun.pipeline.model import Stage

LONGEST = 60  # characters of a value that fit on a line beside its twin


def key_changes(stage: Stage, then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What differs between the parts of a stage's key when it ran last and those of this time, one sentence each."""
    if not then:
        return ["never run before"]
    pairs = [(name, then.get(name), now.get(name)) for name in dict.fromkeys([*now, *then])]
    return [_sentence(stage, name, old, new) for name, old, new in pairs if old != new]


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
        return f"environment variable {rest} changed"
    if name == MODULES:
        return f"modules come from other folders: PYTHONPATH was {_shown(old)}, and is {_shown(new)}"
    return f"{name}: {_shown(old)} -> {_shown(new)}"


def _shown(text: str | None) -> str:
    if text is None:
        return "not set"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
