"""Files that take the place of the kernel's, for tests of the environment."""

from __future__ import annotations

from pathlib import Path


def put(path: Path, text: str) -> None:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
