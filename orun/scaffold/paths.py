"""Names and paths in a pipeline file that is made for a model."""

from __future__ import annotations

import os
import re
from pathlib import Path

from orun.errors import UsageError


def file_for(model: str) -> Path:
    """Return the default pipeline file: `model.yaml` for model.onnx, `load.yaml` for net.py:load."""
    stem = model.rpartition(":")[2] if ".py:" in model else Path(model).absolute().stem
    name = re.sub(r"[^\w]+", "-", stem).strip("-") or "model"
    return Path(f"{name}.yaml")


def dataset_from(data: str, file: Path) -> str:
    """Return a dataset's path, or `file.py:function`, relative to the folder of a pipeline file."""
    if not data:
        return ""
    path, separator, function = data.rpartition(":") if ".py:" in data else (data, "", "")
    return Path(os.path.relpath(Path(path).absolute(), file.absolute().parent)).as_posix() + separator + function


def require_free(path: Path, hint: str) -> None:
    """Refuse a path at which there is something already."""
    if os.path.lexists(path):
        raise UsageError(f"{path} is there already", hint=hint)
