"""A small project whose runs differ in a parameter, in code or in a file."""

from __future__ import annotations

from pathlib import Path

import orun
from orun.blame.bisect import Bisection, bisect
from orun.core.events import Event, StageStarted
from orun.core.run_record import RunResult
from orun.store import Store

STAGES = """
from orun import stage

import helper


@stage(inputs={}, output="files", metrics=["length"])
def make(context, *, text: str = "a b", times: int = 1, mark: str = ""):
    (context.output / "text").write_text(text * times + mark)
    return {"length": len(text)}


@stage(inputs={"text": "files"}, output="metrics", metrics=["score"])
def score(context, *, weight: float = 1.0, offset: float = 0.0, note: str = ""):
    text = (context.inputs["text"] / "text").read_text()
    if "boom" in text:
        raise ValueError("boom")
    return {"score": helper.value(text) * weight + offset}
"""
HELPER = """
def value(text):
    return len(text)
"""
PIPELINE = """
name: mixed
vars: {text: abc}
stages:
  make: {uses: ./stages.py:make, with: {text: "${vars.text}", times: 1}}
  score:
    uses: ./stages.py:score
    needs: make
    with: {weight: 1.0, note: one}
    gate: {score: {max: 10}}
"""


class Project:
    """The project, and the stages that ran for the last bisection."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        self.folder.mkdir()
        self.store = folder / "store"
        self.started: list[str] = []
        for name, text in (("pipeline.yaml", PIPELINE), ("stages.py", STAGES), ("helper.py", HELPER)):
            (self.folder / name).write_text(text)

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.folder / name).read_text()
        assert old in text
        (self.folder / name).write_text(text.replace(old, new))

    def run(self, **values: object) -> RunResult:
        return orun.run(self.folder / "pipeline.yaml", set=values, store=self.store)

    def bisect(self, good: RunResult, bad: RunResult, gate: str = "") -> Bisection:
        self.started.clear()
        with Store.open(self.store) as store:
            return bisect(store, good.run, bad.run, gate, self._hear)

    def _hear(self, event: Event) -> None:
        if isinstance(event, StageStarted):
            self.started.append(event.stage)
