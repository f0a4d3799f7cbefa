"""Engines: models compiled for one provider.

An `engine` artifact is a folder with `model.onnx`, the provider's files, and `engine.json`, which describes them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from orun.core.serialization import Record, decode, encode, field, replace
from orun.core.targets import Provider, Target
from orun.errors import UsageError

FILE_NAME = "engine.json"

Form = Literal["context", "cache"]


class Engine(Record, frozen=True):
    """Description of a compiled model.

    Attributes:
        provider: the provider that compiled it.
        form: `context` (EPContext nodes replace the compiled parts) or `cache` (the model is unchanged, and the
            provider's cache lies beside it).
        version: of ONNX Runtime.
        paths: options of the provider that name a file or folder of the artifact, relative to it.
        options: further options that the provider needs to find them.
    """

    provider: str
    form: Form
    version: str
    paths: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)


def write(folder: Path, engine: Engine) -> None:
    """Write the description into the artifact's folder."""
    (folder / FILE_NAME).write_text(json.dumps(encode(engine), indent=2, sort_keys=True) + "\n", "utf-8")


def read(model: Path) -> Engine | None:
    """Return the description of a compiled model; None if the model is not compiled."""
    try:
        return decode(Engine, json.loads((model.parent / FILE_NAME).read_bytes()))
    except FileNotFoundError:
        return None


def add_engine_options(model: Path, target: Target) -> Target:
    """Return the target with the options that lead the provider to a compiled model's files.

    Raises:
        UsageError: if the model was compiled for a provider that the target does not name.
    """
    engine = read(model)
    if engine is None:
        return target
    if engine.provider not in [provider.name for provider in target.providers]:
        raise UsageError(
            f"{model.name} was compiled for {engine.provider}, which target '{target.name}' does not name",
            hint="measure it on the target that it was compiled for",
        )
    options = {name: str(model.parent / path) for name, path in engine.paths.items()} | dict(engine.options)
    providers = tuple(
        Provider(provider.name, {**provider.options, **options}) if provider.name == engine.provider else provider
        for provider in target.providers
    )
    return replace(target, providers=providers)
