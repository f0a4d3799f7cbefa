"""A small project in a temporary folder: plain functions over text files, to watch what reruns and why."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orun
from orun.core.events import Event, Planning
from orun.core.run_record import Failure, RunResult
from orun.environment.install_commands import choose_installer

ROOT = Path(__file__).parents[1]


def install_hint(extras: str) -> str:
    """Command that installs extras of orun where the tests run: in an editable install of this checkout."""
    return f"{choose_installer()} -e '{ROOT}[{extras}]'"


STAGES = """
import os
from pathlib import Path

from orun import Metric, stage

import helper


@stage(inputs={}, output="files", metrics=["length"])
def make(context, *, text: str = "a b"):
    (context.output / "text").write_text(text)
    return {"length": Metric(len(text), better="lower")}


@stage(inputs={"text": "files"}, output="files")
def upper(context, *, mark: str = "!"):
    words = helper.words((context.inputs["text"] / "text").read_text())
    (context.output / "text").write_text(" ".join(words).upper() + mark)


@stage(inputs={"text": "files"}, output="files")
def count(context):
    words = (context.inputs["text"] / "text").read_text().split()
    (context.output / "text").write_text(str(len(words)))
    return {"words": len(words)}


@stage(inputs={}, output="files")
def read(context, *, name: str):
    data = Path(context.root / name)
    text = data.read_text() if data.exists() else "nothing"
    (context.output / "text").write_text(text + os.environ.get("ORUN_TEST_MARK", ""))
"""
HELPER = """
import deep


def words(text):
    return deep.split(text)
"""
DEEP = """
def split(text):
    return text.split()
"""
PIPELINE = """
name: text
stages:
  make:
    uses: ./stages.py:make
    with: {text: a b}
  upper: {uses: ./stages.py:upper, needs: make}
  count: {uses: ./stages.py:count, needs: upper}
"""


@dataclass
class Project:
    """The project's folder; `run()` runs its pipeline in this process, its stages in theirs.

    Attributes:
        folder: where `pipeline.yaml` and its code are.
        store: where results go.
        events: those of the last run, without what it planned, which is in no log.
    """

    folder: Path
    store: Path
    events: list[Event] = field(default_factory=list)

    @classmethod
    def make(cls, folder: Path, pipeline: str = PIPELINE) -> Project:
        """Write the files of a new project."""
        folder.mkdir(parents=True, exist_ok=True)
        project = cls(folder, folder.parent / "store")
        files = {"pipeline.yaml": pipeline, "stages.py": STAGES, "helper.py": HELPER, "deep.py": DEEP}
        for name, text in files.items():
            project.write(name, text)
        return project

    def write(self, name: str, text: str) -> Path:
        """Write a file of the project."""
        path = self.folder / name
        path.write_text(textwrap.dedent(text))
        return path

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace a text that the file holds."""
        text = (self.folder / name).read_text()
        assert old in text
        (self.folder / name).write_text(text.replace(old, new))

    def run(self, file: str = "pipeline.yaml", **options: Any) -> RunResult:
        """Run the pipeline."""
        self.events.clear()
        return orun.run(self.folder / file, store=self.store, on_event=self._hear, **options)

    def _hear(self, event: Event) -> None:
        if not isinstance(event, Planning):
            self.events.append(event)

    def text(self, stage: str, pipeline: str = "text") -> str:
        """What the stage left for people."""
        return (self.store / "out" / pipeline / stage / "text").read_text()


def outcomes(result: RunResult) -> Mapping[str, str]:
    """What became of each stage."""
    return {stage.stage: stage.outcome for stage in result.stages}


def built(result: RunResult) -> list[str]:
    """The stages that ran."""
    return [stage.stage for stage in result.stages if stage.outcome == "built"]


def failure_of(result: RunResult, stage: str) -> Failure:
    """Why a stage failed."""
    failure = result[stage].failure
    assert failure is not None
    return failure
