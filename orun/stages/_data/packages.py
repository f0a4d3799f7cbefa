"""Packages that only some datasets and parameters need, and the record of those that a stage used."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from orun.errors import MissingPackages
from orun.stages._data.source import Examples, to_source

NEEDED: set[str] = set()  # modules that this process has used
CODE: dict[str, os.stat_result] = {}  # files of plug-ins that it has loaded, as they were

READERS = {
    **dict.fromkeys((".csv", ".tsv", ".jsonl", ".ndjson", ".parquet"), "pyarrow"),
    ".safetensors": "safetensors",
}


def list_packages(root: Path, examples: Examples) -> Mapping[str, str]:
    """Return the distributions that reading a dataset needs, each with its reason; none for a function."""
    source = to_source(examples)
    needed = {}
    if reader := READERS.get(Path(source.path).suffix.lower()):
        needed[reader] = str(source.path)
    if (root / source.path).is_dir():
        needed["pillow|pillow-simd"] = f"the images in {source.path}"
    if source.text is not None:
        needed["transformers"] = f"the tokenizer {source.text.tokenizer}"
    return needed


def need(module: str, purpose: str, distribution: str = "") -> None:
    """Require a package, and note its version with the result of the stage.

    Raises:
        MissingPackages: when it is not installed.
    """
    if find_spec(module) is None:
        raise MissingPackages(f"{purpose} needs {module}, which is not installed", [distribution or module])
    NEEDED.add(module)


def note_code(module: str) -> None:
    """Note the loaded files of a plug-in's package: they count for the result of the stage as its version does."""
    package = module.partition(".")[0]
    loaded = [item for name, item in list(sys.modules.items()) if name.partition(".")[0] == package]
    for file in filter(None, (getattr(item, "__file__", None) for item in loaded)):
        CODE.setdefault(file, Path(file).stat())
