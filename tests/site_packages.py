"""Packages that only the processes of a test have, as an environment holds them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.project import Project

CHECKOUT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Site:
    """A folder as installers fill them.

    Attributes:
        folder: it.
    """

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Site:
        """An empty one below a folder."""
        site = cls(folder / "lib" / "python3" / "site-packages")
        site.folder.mkdir(parents=True)
        return site

    def install(self, name: str, version: str, text: str) -> Path:
        """Install a distribution of one module of its name in the place of any other version; its metadata."""
        self.remove(name)
        self.place(name, text)
        metadata = self.folder / f"{name}-{version}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        return metadata

    def remove(self, name: str) -> None:
        """Remove a distribution and its module, if they are there."""
        for old in self.folder.glob(f"{name}-*.dist-info"):
            shutil.rmtree(old)
        for file in (*self.folder.glob(f"__pycache__/{name}.*"), *self.folder.glob(f"{name}.py")):
            file.unlink()

    def place(self, name: str, text: str) -> None:
        """Put a module in the place of any other of its name, with whose byte code it has nothing to do."""
        for compiled in self.folder.glob(f"__pycache__/{name}.*"):
            compiled.unlink()
        (self.folder / f"{name}.py").write_text(text)

    def run(self, project: Project, *options: str, path: Sequence[Path] = ()) -> dict[str, Any]:
        """Run the pipeline of a project in a process that has these packages: each stage by its name."""
        folders = os.pathsep.join(map(str, (*path, self.folder, CHECKOUT)))
        process = subprocess.run(
            [sys.executable, "-m", "orun", "pipeline.yaml", "--json", "--store", str(project.store), *options],
            cwd=project.folder,
            env={**os.environ, "PYTHONPATH": folders},
            capture_output=True,
            text=True,
            check=False,
        )
        assert process.returncode in (0, 3), process.stdout + process.stderr
        return {stage["stage"]: stage for stage in json.loads(process.stdout)["stages"]}


def reasons(stages: dict[str, Any]) -> dict[str, list[str]]:
    """Why the stages ran that did."""
    return {name: stage["reasons"] for name, stage in stages.items() if stage["outcome"] == "built"}
