"""What counts as a read outside of the project."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx
import pytest

from orun.agent.portability import require_portable
from orun.core.source_location import Position
from orun.errors import NotPortable
from orun.executors import JobResult
from orun.pipeline.model import Stage

SEEN = (1, 2, 3, 4, 5)


def test_files_of_installed_packages_are_everywhere(tmp_path: Path) -> None:
    """Their versions are in the facts of the machine."""
    place = SimpleNamespace(folder=tmp_path, root=tmp_path, left_out=())
    project: Any = SimpleNamespace(place=place, planner=SimpleNamespace(pipeline=SimpleNamespace(root=tmp_path)))
    stage = Stage("s", "kind", Position("p.yaml", 1, 1))
    require_portable(stage, JobResult(reads={str(Path(onnx.__file__)): SEEN}), project, "bench")
    with pytest.raises(NotPortable, match="s reads /etc/hosts, outside of the project"):
        require_portable(stage, JobResult(reads={"/etc/hosts": SEEN}), project, "bench")
