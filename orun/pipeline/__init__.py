"""Conversion of YAML text to a validated, expanded `Pipeline`; every mistake has its place in the file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from orun.pipeline.model import Pipeline

NOTHING: Mapping[str, str] = MappingProxyType({})


def load(path: Path, overrides: Mapping[str, str] = NOTHING) -> Pipeline:
    """Read, check and expand a pipeline file.

    It only reads files: it runs no code, and the result does not depend on the machine.

    Args:
        path: the YAML file.
        overrides: YAML values that replace those of the file, by dotted path (`stages.int8.with.per_channel`).

    Raises:
        UsageError: when there is no such file.
        PipelineError: with every mistake in the file.
    """
    from orun.pipeline.loader import Loader  # lazy: it imports yaml, jsonschema and networkx

    return Loader(path, overrides).load()
