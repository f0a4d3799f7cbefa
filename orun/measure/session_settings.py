"""Session settings beside a model: the providers and session options that were the fastest for a target.

`optimize/session` writes them as `session.json` next to `model.onnx`. Every session of that model takes them, if its
target has the providers of the search.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orun.core.serialization import Record, decode, encode, field, replace
from orun.core.targets import Provider, Target
from orun.errors import UsageError

FILE_NAME = "session.json"
FORMAT = 1


class SessionSettings(Record, frozen=True):
    """Fastest settings of a model for one target.

    Attributes:
        searched: the providers of the target.
        providers: the providers to use in their place; the same ones unless others were faster.
        session: session options by their names in a pipeline file, without those that the target sets itself.
        processor: the processor that they were found on.
    """

    searched: tuple[Provider, ...]
    providers: tuple[Provider, ...]
    session: Mapping[str, Any] = field(default_factory=dict)
    processor: str = ""

    def apply(self, target: Target) -> Target:
        """Return the target with these settings; session options that it sets itself stay."""
        session = {**self.session, **target.session}
        if self.providers == target.providers:
            return replace(target, session=session)
        return replace(target, session=session, providers=self.providers, fallback="allow")


class _File(Record, frozen=True):
    format: int
    settings: tuple[SessionSettings, ...] = ()


def read_settings(folder: Path) -> tuple[SessionSettings, ...]:
    """Return the settings beside a model, one for each searched target; nothing without a file.

    Raises:
        UsageError: if the file is not one of orun.
    """
    try:
        content = decode(_File, json.loads((folder / FILE_NAME).read_bytes()))
    except FileNotFoundError:
        return ()
    except ValueError as error:
        raise UsageError(
            f"{FILE_NAME} beside the model cannot be read",
            why=str(error),
            hint="remove it, or let `optimize/session` write it again",
        ) from error
    if content.format != FORMAT:
        raise UsageError(f"{FILE_NAME} beside the model has format {content.format}, and this orun knows {FORMAT}")
    return content.settings


def write_settings(folder: Path, settings: tuple[SessionSettings, ...]) -> None:
    """Write settings beside a model; equal settings yield equal bytes."""
    text = json.dumps(encode(_File(FORMAT, settings)), indent=2, sort_keys=True)
    (folder / FILE_NAME).write_text(text + "\n", "utf-8")


def add_settings(model: Path, target: Target) -> Target:
    """Return the target with the settings beside the model, if any were found for its providers."""
    fitting = (settings for settings in read_settings(model.parent) if settings.searched == target.providers)
    return next((settings.apply(target) for settings in fitting), target)
