"""Compiled models: what lies beside one, and says for which provider it is and which files that provider reads.

An `engine` artifact is a folder with `model.onnx`, the provider's files, and `engine.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from orun.core.serialization import Record, decode, encode, field, replace
from orun.core.targets import Provider, Target
from orun.errors import UsageError

NAME = "engine.json"

Form = Literal["context", "cache"]


class Engine(Record, frozen=True):
    """What a compiled model is.

    Attributes:
        provider: who compiled it.
        form: `context` (EPContext nodes stand for what was compiled) or `cache` (the model as it was, and what the
            provider keeps of it).
        version: of ONNX Runtime.
        paths: options of the provider that name a file or folder of the artifact, relative to it.
        options: further options that it needs to find them.
    """

    provider: str
    form: Form
    version: str
    paths: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)


def write(folder: Path, engine: Engine) -> None:
    """Leave what a compiled model is beside it."""
    (folder / NAME).write_text(json.dumps(encode(engine), indent=2, sort_keys=True) + "\n", "utf-8")


def read(model: Path) -> Engine | None:
    """What the model is, when it is a compiled one."""
    try:
        return decode(Engine, json.loads((model.parent / NAME).read_bytes()))
    except FileNotFoundError:
        return None


def applied(model: Path, target: Target) -> Target:
    """The target as a session of the model needs it: of a compiled one, the provider's paths lead into its artifact.

    Raises:
        UsageError: when it was compiled for a provider that the target does not name.
    """
    engine = read(model)
    if engine is None:
        return target
    if engine.provider not in [provider.name for provider in target.providers]:
        raise UsageError(
            f"{model.name} was compiled for {engine.provider}, which target '{target.name}' does not name",
            hint="measure it on the target that it was compiled for",
        )
    own = {name: str(model.parent / path) for name, path in engine.paths.items()} | dict(engine.options)
    providers = tuple(
        Provider(one.name, {**one.options, **own}) if one.name == engine.provider else one for one in target.providers
    )
    return replace(target, providers=providers)
