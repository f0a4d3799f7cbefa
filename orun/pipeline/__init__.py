"""YAML text to a validated, expanded `Pipeline`; every mistake with its place in the file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from orun.pipeline.model import Pipeline

NOTHING: Mapping[str, str] = MappingProxyType({})


def load(path: Path, overrides: Mapping[str, str] = NOTHING) -> Pipeline:
    """Read, check and expand a pipeline file.

    Only files are read: no code that the file names is run, and nothing else of this machine matters.

    Args:
        path: the YAML file.
        overrides: YAML values that replace those of the file, by dotted path (`stages.int8.with.per_channel`).

    Raises:
        UsageError: when there is no such file.
        PipelineError: with every mistake in the file.
    """
    from orun.pipeline.loader import Loader  # yaml, jsonschema and networkx come with it

    return Loader(path, overrides).load()
