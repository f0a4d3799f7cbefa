"""Packages that only some datasets and parameters need: no tools of a kind, so that a stage says which it has used."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from orun.errors import UsageError
from orun.stages._data.source import Examples, Source
from orun.stages.params import FilePath

NEEDED: set[str] = set()  # the modules of those that the process has asked for


READERS = {".csv": "pyarrow", ".parquet": "pyarrow", ".safetensors": "safetensors"}


def reading(root: Path, examples: Examples) -> Mapping[str, str]:
    """The distributions that reading a dataset takes, each with what asks for it; none where code returns it.

    Args:
        root: the folder that paths are relative to.
        examples: the dataset.
    """
    source = examples if isinstance(examples, Source) else Source(FilePath(examples))
    found = {}
    if reader := READERS.get(Path(source.path).suffix.lower()):
        found[reader] = str(source.path)
    if (root / source.path).is_dir():
        found["pillow|pillow-simd"] = f"the images in {source.path}"
    if source.text is not None:
        found["transformers"] = f"the tokenizer {source.text.tokenizer}"
    return found


def need(module: str, what: str, install: str = "'orun[data]'") -> None:
    """See that a package is there; its version is noted with the result of the stage.

    Args:
        module: its module.
        what: what needs it, for the message.
        install: what installs it.

    Raises:
        UsageError: when it is not there.
    """
    if find_spec(module) is None:
        raise UsageError(f"{what} needs {module}, which is not installed", hint=f"pip install {install}")
    NEEDED.add(module)
