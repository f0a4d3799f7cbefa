"""Reader of a dataset from a file or folder, by the file's suffix."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from orun.errors import OrunError, UsageError
from orun.measure.dataset import Dataset
from orun.stages._data import arrays, tables
from orun.stages._data.columns import Columns, assemble
from orun.stages._data.packages import note_code
from orun.stages._data.source import Source

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

READERS: Mapping[str, Callable[[Path, str], Columns]] = {
    ".npz": arrays.read_npz,
    ".npy": arrays.read_npy,
    ".safetensors": arrays.read_safetensors,
    ".txt": tables.read_lines,
}
KNOWN = (".npz", ".npy", ".safetensors", *tables.SUFFIXES, ".txt")
# Keys of a source by what they are for. `classes` is for all.
FOR_IMAGES = ("images", "annotations")
FOR_INPUTS = ("inputs", "types")
FOR_COLUMNS = ("inputs", "labels", "fields", "missing", "text")


def read(root: Path, source: Source, model_inputs: Collection[str] = ()) -> Dataset:
    """Read the dataset of a source; messages name its file as the pipeline does. `model_inputs` as for `assemble`.

    Raises:
        UsageError: when a file, an array, a column or a row is wrong.
    """
    path, name = root / source.path, str(source.path)
    if path.is_dir():
        from orun.stages._data.images import read_annotated, read_images, require_images

        require_images(path, name)
        if key := _find_declared(source, FOR_COLUMNS):
            raise UsageError(
                f"`{key}` is for columns, and {name} is a folder",
                why="its images are the only input",
            )
        return read_annotated(root, name, source) if source.annotations else read_images(path, name, source)
    if key := _find_declared(source, FOR_IMAGES):
        raise UsageError(f"`{key}` is for a folder of images", why=f"{name} is not a folder")
    if source.text is not None and (key := _find_declared(source, FOR_INPUTS)):
        raise UsageError(f"`{key}` is for columns that are inputs", why="`text` makes the inputs from texts")
    columns = read_columns(path, name, nan=source.missing == "nan", texts=_list_text_columns(source))
    if source.text is not None:
        from orun.stages._data.texts import tokenize

        return tokenize(root, name, columns, source)
    return assemble(name, columns, source, model_inputs)


def _find_declared(source: Source, keys: Iterable[str]) -> str:
    """Return the first of these keys that the pipeline declares; empty without any."""
    default = Source(source.path)
    return next((key for key in keys if getattr(source, key) != getattr(default, key)), "")


def _list_text_columns(source: Source) -> set[str]:
    """Return the columns that a source declares to be texts, whatever their cells look like."""
    columns = {source.labels} if source.classes else set[str]()
    if source.text is not None:
        columns |= {source.text.column, source.text.pair or source.text.column}
    for title, dtype in source.types.items():
        if dtype == "text":
            declared = source.inputs.get(title, title)
            columns.update([declared] if isinstance(declared, str) else declared)
    return columns


def list_columns(path: Path, name: str) -> Mapping[str, bool]:
    """Return the arrays or columns of a file, and whether each holds texts; see `read` for what it raises."""
    if path.suffix.lower() in tables.SUFFIXES:
        return tables.list_columns(path, name)
    columns = read_columns(path, name)
    return {column: np.asarray(columns[column]).dtype.kind in "OUS" for column in columns}


def list_dates(path: Path, name: str) -> list[str]:
    """Return the columns of a table that hold dates or times; see `read` for what it raises."""
    return tables.list_dates(path, name) if path.suffix.lower() in tables.SUFFIXES else []


def list_empty(path: Path, name: str) -> list[str]:
    """Return the columns of a file in which rows have no value; see `read` for what it raises."""
    return tables.list_empty(path, name) if path.suffix.lower() in tables.SUFFIXES else []


def read_columns(path: Path, name: str, *, nan: bool = False, texts: Collection[str] = ()) -> Columns:
    """Return the arrays or columns of a file; see `read` for what it raises, `tables.read_table` for the options."""
    suffix = path.suffix.lower()
    if suffix in tables.SUFFIXES:
        return tables.read_table(path, name, nan=nan, texts=texts)
    if suffix in READERS:
        return READERS[suffix](path, name)
    from orun.environment.entry_points import Group  # lazy: for suffixes that orun does not read itself

    readers = Group("orun.datasets", "dataset reader")
    offered = readers.find()
    if points := offered.get(suffix.removeprefix(".")):
        return _read_by_package(points[0], readers.load_function(points), path, name)
    known = dict.fromkeys((*KNOWN, *(f".{other}" for other in offered)))
    raise UsageError(
        f"{name} is not a readable dataset",
        why=f"its name ends in {suffix or 'nothing'}, not in {', '.join(known)}; images are in a folder",
        hint="read it in a function of your own: `file.py:function` that returns an orun.Dataset",
    )


def _read_by_package(point: EntryPoint, read: Callable[[Path], Columns], path: Path, name: str) -> Columns:
    """Return the columns of a file as the function of a package reads them; raise UsageError when it cannot."""
    from orun.environment.entry_points import describe, name_package

    note_code(point.module)
    problem = f"{name} cannot be read by the package {name_package(point)}"
    try:
        columns = read(path)
    except OrunError:
        raise
    except Exception as error:  # a package may raise any error
        raise UsageError(problem, why=describe(error)) from error
    note_code(point.module)  # it may have imported more
    if not isinstance(columns, Mapping):
        raise UsageError(problem, why=f"{point.value} returned {type(columns).__name__}, not columns by name")
    return columns
