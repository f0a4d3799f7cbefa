"""Files of a run's stages in its store: manifests of releases, samples of latencies."""

from __future__ import annotations

import array
import ast
import io
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

from orun.core.run_record import StageResult
from orun.errors import OrunError
from orun.fs.observed_state import RECORD_LIMIT

NPY = b"\x93NUMPY"  # begins an array in a file, https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html


def read_stored(store: Path, stage: StageResult, name: str) -> bytes | None:
    """Return a file of a stage's artifact; None if it has none of that name, or the store has lost it."""
    from orun.store import Store

    if not stage.tree:
        return None
    try:
        with Store.open(store, read_only=True) as opened:
            tree = opened.tree(stage.tree)
            entry = next((entry for entry in tree.entries if entry.path == name), None) if tree else None
            return opened.read(entry.digest) if entry and entry.size <= RECORD_LIMIT else None
    except OrunError:  # the store is damaged or gone: the report does without the file
        return None


def read_samples(content: bytes) -> Mapping[str, array.array[float]]:
    """Return the float64 vectors of an .npz file by name, without numpy, which the process of a run does not import.

    Raises:
        ValueError: if the content is no such file.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            vectors = {name.removesuffix(".npy"): _vector(archive.read(name)) for name in archive.namelist()}
    except (zipfile.BadZipFile, SyntaxError, KeyError, TypeError) as error:
        raise ValueError(str(error)) from error
    return {name: vector for name, vector in vectors.items() if vector is not None}


def _vector(content: bytes) -> array.array[float] | None:
    """Return a vector of float64; None for an array of another kind."""
    if not content.startswith(NPY + b"\x01"):
        raise ValueError("this is no array of NumPy's format 1")
    start = 10 + int.from_bytes(content[8:10], "little")
    header = ast.literal_eval(content[10:start].decode("latin-1"))
    if header["descr"] != "<f8" or len(header["shape"]) != 1:
        return None
    vector = array.array("d", content[start:])
    if sys.byteorder == "big":
        vector.byteswap()
    return vector
