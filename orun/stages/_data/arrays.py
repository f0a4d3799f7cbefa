"""Readers of array files: .npz, .npy and .safetensors, without unpickling."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from orun.errors import UsageError
from orun.stages._data.columns import Columns
from orun.stages._data.packages import need


def read_npz(path: Path, name: str) -> Columns:
    """Return every array of an archive."""
    if not zipfile.is_zipfile(path):  # NumPy would try to unpickle it
        raise UsageError(
            f"{name} is not an archive of arrays",
            why="it is not a zip file",
            hint="np.savez(path, x=values, labels=labels)",
        )
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {array: _read_array(archive, array, name) for array in archive.files}
    except (zipfile.BadZipFile, OSError, EOFError, ValueError, TypeError) as error:
        raise _build_broken_file_error(name, "an archive of arrays", error) from error


def _read_array(archive: np.lib.npyio.NpzFile, array: str, name: str) -> np.ndarray:
    try:
        return np.asarray(archive[array])
    except ValueError as error:  # an array of Python objects, which is pickled
        raise UsageError(f"{name}: the array {array!r} cannot be read", why=str(error)) from error


def read_npy(path: Path, name: str) -> Columns:
    """Return the array of the file, under the file's name."""
    try:
        return {path.stem: np.load(path, allow_pickle=False)}
    except (ValueError, EOFError) as error:
        raise _build_broken_file_error(name, "an array", error) from error


def read_safetensors(path: Path, name: str) -> Columns:
    """Return every tensor of the file."""
    need("safetensors", f"reading {name}")
    import ml_dtypes  # noqa: F401 - registers bfloat16 and similar types with NumPy
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return dict(sorted(load_file(path).items()))
    except SafetensorError as error:
        raise _build_broken_file_error(name, "a file of tensors", error) from error


def _build_broken_file_error(name: str, kind: str, error: Exception) -> UsageError:
    return UsageError(f"{name} is not {kind}", why=str(error).strip())
