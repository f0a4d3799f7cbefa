"""Files of JSON beside a model of transformers: its configuration, and the preparation of images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CONFIGURATION = "config.json"  # of a model in a folder of transformers
PREPARATION = "preprocessor_config.json"  # of a vision model in a folder of transformers


def read_json(file: Path) -> Any:
    """Return the content of a file of JSON beside a model; None if there is none that can be read."""
    try:
        return json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return None


def read_object(file: Path) -> dict[str, Any]:
    """Return the object in a file of JSON beside a model; an empty one if there is none."""
    content = read_json(file)
    return content if isinstance(content, dict) else {}


def read_class_names(file: Path) -> list[str]:
    """Return the names of the classes in the order of the model's scores; empty if its configuration has none.

    `LABEL_0` and so on are what transformers writes for classes without names.
    """
    stated = read_object(file).get("id2label") or {}
    names = [stated[number] for number in sorted(stated, key=int)]
    return [] if names == [f"LABEL_{number}" for number in range(len(names))] else names
