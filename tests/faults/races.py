"""Edits of a stage's dependencies while it runs: no result may be stored that belongs to no version."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import orun
from orun.core.events import Event, StageProgress, StageStarted
from orun.core.run_record import RunResult
from orun.store import Store
from tests.faults.rig import Judgement

# The stage stops twice until the test lets it go on: before it reads anything and after it has read all.
STAGES = """
import os

from orun import FilePath, stage

WORD = "code"


@stage(inputs={}, output="files")
def source(context):
    (context.output / "text").write_text("input")


@stage(inputs={"text": "files"}, output="files")
def slow(context, *, declared: FilePath, folder: FilePath, word: str, gate: str, model: str = ""):
    def pause(number):
        context.progress(number, number, "paused")
        (context.root / gate).read_bytes()

    pause(1)
    import helper

    root = context.root
    paths = (root / declared, root / folder / "file.txt", root / "undeclared.txt", context.inputs["text"] / "text")
    words = [WORD, word, helper.WORD, *(path.read_text() for path in paths), *sorted(os.listdir(root / "listed"))]
    if model:
        import onnx

        words += [one.raw_data.decode() for one in onnx.load(root / model).graph.initializer]
    pause(2)
    (context.output / "text").write_text(" ".join(words))
"""
PIPELINE = """
name: race
stages:
  source: {uses: ./stages.py:source}
  slow:
    uses: ./stages.py:slow
    needs: source
    with: {declared: declared.txt, folder: folder, word: pipeline, gate: ../store/gate}
"""
FILES = {
    "pipeline.yaml": PIPELINE,
    "stages.py": STAGES,
    "helper.py": 'WORD = "helper"\n',
    "declared.txt": "declared",
    "folder/file.txt": "folder",
    "undeclared.txt": "undeclared",
    "listed/name": "",
}
WORDS = ("code", "pipeline", "helper", "declared", "folder", "undeclared", "input", "name")
EXTERNAL = "external"  # the bytes of the only weights of the model, for those races that are about them


def nothing() -> None:
    """Do nothing."""


@dataclass
class Race:
    """A project whose stage is stopped while something is edited.

    Attributes:
        folder: holds the project and the store.
        pauses: what is done when the stage starts (0), and at each stop of it, by its number.
    """

    folder: Path
    pauses: Mapping[int, Callable[[], None]] = field(default_factory=dict)

    @property
    def project(self) -> Path:
        """Where the pipeline file is."""
        return self.folder / "project"

    @property
    def store(self) -> Path:
        """Where its results are."""
        return self.folder / "store"

    @classmethod
    def make(cls, folder: Path) -> Race:
        """Write the project."""
        race = cls(folder)
        for name, text in FILES.items():
            path = race.project / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        with Store.open(race.store):
            os.mkfifo(race.store / "gate")
        return race

    def run(self) -> RunResult:
        """Run the pipeline and let the stage go on whenever it stops."""
        return orun.run(self.project / "pipeline.yaml", store=self.store, on_event=self._hear)

    def _hear(self, event: Event) -> None:
        if isinstance(event, StageStarted) and event.stage == "slow":
            self.pauses.get(0, nothing)()
        if isinstance(event, StageProgress):
            self.pauses.get(event.done, nothing)()
            (self.store / "gate").write_text("go on")

    def add_model(self) -> None:
        """Let the stage load a model with external data, too."""
        import onnx
        from onnx import TensorProto, helper

        weights = helper.make_tensor("w", TensorProto.UINT8, [len(EXTERNAL)], EXTERNAL.encode(), raw=True)
        y = helper.make_tensor_value_info("y", TensorProto.UINT8, None)
        graph = helper.make_graph([helper.make_node("Identity", ["w"], ["y"])], "g", [], [y], [weights])
        path = self.project / "model.onnx"
        onnx.save(helper.make_model(graph), path, save_as_external_data=True, location="weights", size_threshold=0)
        pipeline = self.project / "pipeline.yaml"
        pipeline.write_text(pipeline.read_text().replace("word: pipeline", "word: pipeline, model: model.onnx"))

    @property
    def output(self) -> Path:
        """What the stage left for people."""
        return self.store / "out" / "race" / "slow" / "text"


@dataclass(frozen=True)
class Edit:
    """An edit that can be taken back.

    Attributes:
        path: the file, relative to the folder of the race; a pattern for an object.
        old: the word in it that is replaced.
        word: which of `WORDS` changes with it, or `EXTERNAL`; empty when the edit is damage.
    """

    path: str
    old: str
    word: str

    def apply(self, race: Race, old: str, new: str) -> None:
        """Replace a text in the file, in place."""
        for path in sorted(race.folder.glob(self.path)):
            text = path.read_text()
            if old in text:
                mode = path.stat().st_mode
                path.chmod(0o644)
                path.write_text(text.replace(old, new))
                path.chmod(mode)

    def do(self, race: Race) -> None:
        """Make the edit."""
        self.apply(race, self.old, self.new)

    def undo(self, race: Race) -> None:
        """Take it back."""
        self.apply(race, self.new, self.old)

    @property
    def new(self) -> str:
        """What is there instead, of the same length."""
        return re.sub(r"\w(?=\W*$)", "X", self.old)


class Rename(Edit):
    """A file that gets another name."""

    def apply(self, race: Race, old: str, new: str) -> None:
        """Rename it."""
        path = race.project / "listed" / old
        if path.exists():
            path.rename(path.with_name(new))


EDITS: Mapping[str, Edit] = {
    "pipeline": Edit("project/pipeline.yaml", "word: pipeline", "pipeline"),
    "code": Edit("project/stages.py", 'WORD = "code"', "code"),
    "helper": Edit("project/helper.py", 'WORD = "helper"', "helper"),
    "declared file": Edit("project/declared.txt", "declared", "declared"),
    "declared folder": Edit("project/folder/file.txt", "folder", "folder"),
    "undeclared file": Edit("project/undeclared.txt", "undeclared", "undeclared"),
    "listed folder": Rename("project/listed", "name", "name"),
    "external data": Edit("project/weights", EXTERNAL, EXTERNAL),
    "object of the input": Edit("store/objects/*/*", "input", ""),
    "output of the stage before": Edit("store/out/race/source/text", "input", ""),
}
# When it is edited and when that is taken back: as the stage starts (0), before it reads (1), after it has read (2).
MOMENTS: Mapping[str, tuple[int, int | None]] = {
    "before it reads": (1, None),
    "after it has read": (2, None),
    "to and fro while it starts": (0, 1),
    "to and fro while it reads": (1, 2),
    "fro with its times": (1, 2),
}
# Whoever may write to an object and sets its times back while a stage reads it is not found out: the links that orun
# itself makes and removes change the ctime of objects as well.
UNSEEN = frozenset(
    {("object of the input", "fro with its times"), ("output of the stage before", "fro with its times")}
)


def trial(folder: Path, name: str, moment: str) -> Judgement:
    """Edit something while the stage runs; then run with each version, which must give what belongs to it."""
    race, edit = Race.make(folder), EDITS[name]
    if edit.word == EXTERNAL:
        race.add_model()
    times: dict[Path, tuple[int, int]] = {}

    def forth() -> None:
        for path in race.folder.glob(edit.path):
            times[path] = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
        edit.do(race)

    def back() -> None:
        edit.undo(race)
        for path, (accessed, modified) in times.items() if moment == "fro with its times" else ():
            os.utime(path, ns=(accessed, modified))

    there, again = MOMENTS[moment]
    race.pauses = {there: forth} if again is None else {there: forth, again: back}
    first = race.run()
    race.pauses = {}
    original, edited = expected(edit, edited=False), expected(edit, edited=True)
    if first.exit_code == 0 and race.output.read_text() not in (original, edited):
        return Judgement("wrong", f"exit 0 with {race.output.read_text()}")
    for prepare, right in ((edit.do, edited), (edit.undo, original), (edit.do, edited)):
        prepare(race)
        result = race.run()
        if (result.exit_code, race.output.read_text()) != (0, right):
            return Judgement("wrong", f"exit {result.exit_code} with {race.output.read_text()} instead of {right}")
    failure = first["slow"].failure
    return Judgement("refused", failure.problem) if failure else Judgement("survived")


def expected(edit: Edit, *, edited: bool) -> str:
    """What the stage makes of the files as they were written, or of the edited ones."""
    inputs = (*WORDS, EXTERNAL) if edit.word == EXTERNAL else WORDS
    return " ".join(f"{word[:-1]}X" if edited and word == edit.word else word for word in inputs)
