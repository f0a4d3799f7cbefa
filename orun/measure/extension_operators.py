"""Operators of onnxruntime-extensions in a model, and the library that its sessions load for them."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from orun.core.serialization import replace
from orun.core.targets import EXTENSIONS, Target
from orun.errors import MissingPackages

DOMAIN = "com.microsoft.extensions"
DOMAINS = frozenset({DOMAIN, "ai.onnx.contrib"})
OPSET_IMPORT, OPSET_DOMAIN = 8, 1  # numbers of the fields `ModelProto.opset_import` and `OperatorSetIdProto.domain`
CONTINUES = 0x80  # bit of a byte after which a number goes on
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types of protocol buffers


def add_extensions(model: Path, target: Target) -> Target:
    """Return the target with the library of onnxruntime-extensions, if the model has operators of it.

    Raises:
        MissingPackages: if the model needs the library, and it is not installed.
    """
    if target.extended or not needs_extensions(model):
        return target
    if importlib.util.find_spec("onnxruntime_extensions") is None:
        raise MissingPackages(f"{model.name} has operators of {EXTENSIONS}, which is not installed", [EXTENSIONS])
    libraries = [*(target.session.get("custom_op_libraries") or ()), EXTENSIONS]
    return replace(target, session={**target.session, "custom_op_libraries": libraries})


def needs_extensions(model: Path) -> bool:
    """Return whether a model imports operators of onnxruntime-extensions."""
    return model.suffix == ".onnx" and not DOMAINS.isdisjoint(list_imported_domains(model))


def list_imported_domains(model: Path) -> set[str]:
    """Return the domains of operators that a model imports.

    Only the few bytes around the graph are read: the time to parse a model of gigabytes would count as time to load it.
    A file that is not a model has none; ONNX Runtime says what is wrong with it.
    """
    with model.open("rb") as file:
        end = os.fstat(file.fileno()).st_size
        try:
            imports = [file.read(size) for number, size in _iter_sized_fields(file, end) if number == OPSET_IMPORT]
        except ValueError:
            return set()
    return {_read_domain(content) for content in imports}


def _read_domain(content: bytes) -> str:
    from io import BytesIO

    file = BytesIO(content)
    for number, size in _iter_sized_fields(file, len(content)):
        if number == OPSET_DOMAIN:
            return file.read(size).decode(errors="replace")
    return ""


def _iter_sized_fields(file: BinaryIO, end: int) -> Iterator[tuple[int, int]]:
    """Yield number and size of each field that has bytes, with the file at their start; the file is moved behind them.

    Raises:
        ValueError: if these are not fields of a protocol buffer.
    """
    while file.tell() < end:
        number, kind = divmod(_read_varint(file), 8)
        if kind == VARINT:
            _read_varint(file)
        elif kind in (FIXED64, FIXED32):
            file.seek(8 if kind == FIXED64 else 4, os.SEEK_CUR)
        elif kind == BYTES:
            size = _read_varint(file)
            start = file.tell()
            if start + size > end:
                raise ValueError(f"a field of {size} bytes ends behind the file")
            yield number, size
            file.seek(start + size)
        else:
            raise ValueError(f"there is no wire type {kind}")


def _read_varint(file: BinaryIO) -> int:
    value = shift = 0
    while byte := file.read(1):
        value |= (byte[0] & ~CONTINUES) << shift
        shift += 7
        if not byte[0] & CONTINUES:
            return value
    raise ValueError("a number ends behind the file")
