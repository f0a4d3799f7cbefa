"""Reader of a dataset from a file or folder, by the file's suffix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from orun.errors import UsageError
from orun.measure.dataset import Dataset
from orun.stages._data import arrays, tables
from orun.stages._data.columns import Columns, assemble
from orun.stages._data.source import Source

READERS: Mapping[str, Callable[[Path, str], Columns]] = {
    ".npz": arrays.read_npz,
    ".npy": arrays.read_npy,
    ".safetensors": arrays.read_safetensors,
    ".txt": tables.read_lines,
}
TABLES = (".csv", ".parquet")
KNOWN = (".npz", ".npy", ".safetensors", *TABLES, ".txt")


def read(root: Path, source: Source) -> Dataset:
    """Read the dataset of a source; messages name its file as the pipeline does.

    Raises:
        UsageError: when a file, an array, a column or a row is wrong.
    """
    path, name = root / source.path, str(source.path)
    if path.is_dir():
        from orun.stages._data.images import read_annotated, read_images

        columns_only = ("fields",) if source.annotations else ("classes", "fields")
        if keys := [key for key in columns_only if getattr(source, key)]:
            raise UsageError(
                f"`{keys[0]}` is for columns, and {name} is a folder",
                why="the class of an image is its folder, in order of names, and it has no fields",
            )
        return read_annotated(root, name, source) if source.annotations else read_images(path, name, source.images)
    if source.annotations:
        raise UsageError("`annotations` is for a folder of images", why=f"{name} is none")
    _require_known(path, name)
    columns = _read_columns(path, name, nan=source.missing == "nan")
    if source.text is not None:
        from orun.stages._data.texts import tokenize

        return tokenize(root, name, columns, source)
    return assemble(name, columns, source)


def list_columns(path: Path, name: str) -> Mapping[str, bool]:
    """Return the arrays or columns of a file, and whether each holds texts; see `read` for what it raises."""
    _require_known(path, name)
    if path.suffix.lower() in TABLES:
        return tables.list_columns(path, name)
    columns = _read_columns(path, name)
    return {column: np.asarray(columns[column]).dtype.kind in "OUS" for column in columns}


def _require_known(path: Path, name: str) -> None:
    if path.suffix.lower() not in KNOWN:
        raise UsageError(
            f"{name} is not a readable dataset",
            why=f"its name ends in {path.suffix or 'nothing'}, not in {', '.join(KNOWN)}; images are in a folder",
            hint="read it in a function of your own: `file.py:function` that returns an orun.Dataset",
        )


def _read_columns(path: Path, name: str, *, nan: bool = False) -> Columns:
    suffix = path.suffix.lower()
    return tables.read_table(path, name, nan=nan) if suffix in TABLES else READERS[suffix](path, name)
