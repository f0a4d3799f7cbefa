"""Branches of a module on the values of its inputs, which no exporter of PyTorch can follow."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from warnings import WarningMessage

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from orun.errors import StageFailed
from orun.stages._graph.sessions import Feed
from orun.stages._torch.export import Bound
from orun.stages.contract import Context

BRANCHING = "GuardOnDataDependentSymNode"
PACKAGES = ("site-packages", "dist-packages")  # folders that installers fill
Place = tuple[str, int]  # file and line


class _ValueReads(TorchDispatchMode):  # type: ignore[misc]  # torch is not checked
    """Mode that finds the lines at which Python reads a value that follows from values of the inputs.

    Args:
        inputs: all that is computed from them follows from them, except what only takes their shape.
        lines: the lines to look at.

    Attributes:
        places: those of the lines that read such a value.
    """

    def __init__(self, inputs: Any, lines: set[Place]) -> None:
        super().__init__()
        self._following = set(_list_storages(inputs))
        self._lines = lines
        self.places: set[Place] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        takes_shape = name.startswith("new_") or name.endswith("_like")
        if takes_shape or self._following.isdisjoint(_list_storages((args, kwargs))):
            return result
        if isinstance(result, (bool, int, float)):
            frames = ((frame.f_code.co_filename, line) for frame, line in traceback.walk_stack(None))
            self.places.update(self._lines.intersection(frames))
        self._following.update(_list_storages(result))
        return result


def _list_storages(values: Any) -> Iterator[StorageWeakRef]:
    """Yield the storages of all dense tensors in nested values; views of a tensor share its storage."""
    tensors = (item for item in tree_leaves(values) if isinstance(item, torch.Tensor) and item.layout == torch.strided)
    return (StorageWeakRef(item.untyped_storage()) for item in tensors)


def require_no_value_branch(context: Context, bound: Bound, example: Feed, caught: Sequence[WarningMessage]) -> None:
    """Refuse a trace that keeps a value of its example as a constant; of a library's line, make a note.

    PyTorch warns about sizes in the same words as about values. The module therefore runs once more on the example,
    outside the tracer, where Python has sizes as numbers and reads only values from tensors.

    Raises:
        StageFailed: when a line of the project reads a value, other than in an assertion.
    """
    lines = list_traced_lines(caught)
    if not lines:
        return
    positional, named = bound.build_arguments(example)
    with torch.inference_mode(), _ValueReads((positional, named), set(lines)) as reads:
        bound.module(*positional, **named)
    for file, line in sorted(reads.places):
        place = _quote_line(file, line, context.root)
        if is_own(file, context.root):
            raise _build_branch_error(context, place)
        context.note(f"the exported model has as a constant what forward reads from values of its inputs: {place}")


def list_traced_lines(caught: Sequence[WarningMessage]) -> list[Place]:
    """Return the lines that the tracer warned about, other than assertions, which lead nowhere else."""
    lines = sorted(
        {(item.filename, item.lineno) for item in caught if issubclass(item.category, torch.jit.TracerWarning)}
    )
    return [place for place in lines if not linecache.getline(*place).lstrip().startswith("assert")]


@contextmanager
def naming_value_branch(context: Context) -> Iterator[None]:
    """Turn PyTorch's message on its symbols into an error that names the line of a branch.

    Raises:
        StageFailed: when the module depends on a value.
    """
    try:
        yield
    except Exception as error:
        if (line := _find_value_branch(error, context.root)) is None:
            raise
        raise _build_branch_error(context, line) from error


def _build_branch_error(context: Context, line: str) -> StageFailed:
    return context.failed(
        "the module's forward depends on the values of its inputs, which an exported graph cannot",
        why=line,
        hint="compute both results and choose by torch.where, or return a module without that branch; skip a mere "
        "check of the inputs by `if not torch.onnx.is_in_onnx_export()`",
    )


def _find_value_branch(error: BaseException, root: Path) -> str | None:
    """Return the line of the project at which a module depends on a value; None if that is not why an export failed.

    The line is empty if none of the project is to blame.
    """
    while type(error).__name__ != BRANCHING:
        if error.__cause__ is None:
            return None
        error = error.__cause__
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_own(frame.filename, root)]
    return _quote_line(frames[-1].filename, frames[-1].lineno or 0, root) if frames else ""


def is_own(file: str, root: Path) -> bool:
    """Return whether a file belongs to the project, and not to a package that is installed below its root."""
    path = Path(file)
    return path.is_relative_to(root) and not any(folder in path.parts for folder in PACKAGES)


def describe_line(file: str, line: int, root: Path) -> str:
    """Return the place of a line relative to the project or its package."""
    path = Path(file.rpartition("-packages/")[2])
    return f"{path.relative_to(root) if path.is_relative_to(root) else path}:{line}"


def _quote_line(file: str, line: int, root: Path) -> str:
    return f"{describe_line(file, line, root)}: {linecache.getline(file, line).strip()}"
