"""Names and paths of a pipeline that is created for a model."""

from __future__ import annotations

import os
import re
from pathlib import Path

from orun.errors import UsageError

MODELS = (
    ".onnx", ".pt2", ".pt", ".pth", ".keras", ".h5", ".hdf5", ".tflite", ".pb", ".joblib", ".pkl", ".pickle",
)  # fmt: skip


def list_models(folder: Path) -> list[str]:
    """Return the names of the files in a folder that look like models, in the order of their kinds and names."""
    names = sorted(path.name for path in folder.iterdir())
    return [name for suffix in MODELS for name in names if name.lower().endswith(suffix)]


def choose_file(model: str) -> Path:
    """Return the default pipeline file: `model.yaml` for model.onnx, `load.yaml` for net.py:load."""
    stem = model.rpartition(":")[2] if ".py:" in model else Path(model).absolute().stem
    name = re.sub(r"[^\w]+", "-", stem).strip("-") or "model"
    return Path(f"{name}.yaml")


def derive_name(file: Path) -> str:
    """Return a valid name of a pipeline, from the name of its file."""
    name = re.sub(r"[^A-Za-z0-9_]+", "-", file.stem).strip("-")
    return name if name[:1].isalpha() else f"model-{name}".strip("-")


def locate_data(file: Path) -> Path:
    """Return the path of the Python file that yields a pipeline's examples."""
    return file.with_name(f"{derive_name(file)}_data.py")


def make_relative(folder: Path, source: str) -> str:
    """Return a path, or `file.py:function`, relative to the folder of a pipeline file."""
    path, separator, function = source.rpartition(":") if ".py:" in source else (source, "", "")
    return Path(os.path.relpath(Path(path).absolute(), folder.absolute())).as_posix() + separator + function


def require_free(path: Path, hint: str) -> None:
    """Refuse a path that exists."""
    if os.path.lexists(path):
        raise UsageError(f"{path} is there already", hint=hint)
