"""A project that faults are tried on, and what a run after a fault came to."""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from orun.cli.main import main
from tests.faults.folders import contents, copy, fingerprint, remove
from tests.faults.projects import FIRST, Subject

PROGRAM = Path(__file__).with_name("program.py")
CHECKOUT = PROGRAM.parents[2]
PATIENCE = 120.0  # seconds after which a run counts as hanging
BUG, KILLED = 5, -9

Outcome = Literal["survived", "repaired", "rebuilt", "refused", "wrong", "lost", "orphans"]
BAD = ("wrong", "lost", "orphans")  # outcomes that must not be


@dataclass(frozen=True)
class Ended:
    """How a command line ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """What it printed, which was asked for as JSON; empty when it is none."""
        try:
            document: dict[str, Any] = json.loads(self.out)
        except ValueError:
            return {}
        return document

    def stages(self, outcome: str) -> tuple[str, ...]:
        """Ids of the stages that became `outcome`."""
        return tuple(stage["stage"] for stage in self.document["stages"] if stage["outcome"] == outcome)

    def reasons(self, stage: str) -> tuple[str, ...]:
        """Why a stage became what it did."""
        return next(tuple(record["reasons"]) for record in self.document["stages"] if record["stage"] == stage)

    def notices(self) -> tuple[str, ...]:
        """What it said of damage and repair; nothing if the store could not be written to."""
        events = Path(self.document["folder"]) / "events.jsonl"
        lines = events.read_text().splitlines() if events.exists() else []
        return tuple(event["text"] for event in map(json.loads, lines) if event["event"] == "notice")


@dataclass(frozen=True)
class Judgement:
    """What became of a run after a fault, and the evidence."""

    outcome: Outcome
    why: str = ""


@dataclass
class Rig:
    """A project, its store, and the artifacts that clean runs made.

    Attributes:
        folder: holds the project and the store.
        subject: what the project is.
        start: runs `orun` with these words in the project's folder.
        clean: for each variant, what is in `out/` after a clean run: path -> fingerprint.
        objects: for each variant, the digests of the objects that its artifacts consist of.
        ceilings: limits of the processes that run: `resource.RLIMIT_...` -> value.
        variables: what their environment has besides.
    """

    folder: Path
    subject: Subject
    start: Callable[[Rig, Sequence[str]], Ended]
    clean: dict[str, Mapping[str, str]] = field(default_factory=dict)
    objects: dict[str, frozenset[str]] = field(default_factory=dict)
    ceilings: dict[int, int] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def project(self) -> Path:
        """Where the pipeline file is."""
        return self.folder / "project"

    @property
    def store(self) -> Path:
        """Where its results are."""
        return self.folder / "store"

    @property
    def out(self) -> Path:
        """What people open."""
        return self.store / "out" / self.subject.pipeline

    @classmethod
    def make(cls, folder: Path, subject: Subject, start: Callable[[Rig, Sequence[str]], Ended]) -> Rig:
        """Write a project and run each of its variants on a store that is kept for `reset`."""
        rig = cls(folder, subject, start)
        rig.project.mkdir(parents=True)
        (folder / "machine").mkdir()
        subject.write(rig.project)
        for variant in reversed(list(subject.variants)):  # the first one is what `out/` holds in the end
            ended = rig.run(variant)
            assert ended.code == 0, ended
            assert ended.err == "", ended.err
            rig.clean[variant] = rig.artifacts()
            rig.objects[variant] = frozenset(rig.objects_of(ended))
        copy(rig.store, folder / "pristine")
        return rig

    def twin(self, folder: Path) -> Rig:
        """Make a rig of its own in a folder, with the same project, and a store as after the clean runs."""
        folder.mkdir()
        (folder / "machine").mkdir()
        for name, target in (("project", "project"), ("pristine", "pristine"), ("pristine", "store")):
            copy(self.folder / name, folder / target)
        return replace(self, folder=folder, ceilings={}, variables={})

    def environment(self) -> dict[str, str]:
        """The environment of its processes, whose lock of the machine is in its folder."""
        return {**environment(), "ORUN_LOCKS": str(self.folder / "machine"), **self.variables}

    def run(self, variant: str, *arguments: str) -> Ended:
        """Run the pipeline in one of its variants."""
        return self.start(self, self.command_line(variant, *arguments))

    def command_line(self, variant: str, *arguments: str) -> tuple[str, ...]:
        """The command line of a run."""
        return ("pipeline.yaml", "--json", "--store", str(self.store), *self.subject.variants[variant], *arguments)

    def reset(self) -> None:
        """Put the store back as it was after the clean runs; its files are new ones, so one run gets to know them."""
        remove(self.store)
        copy(self.folder / "pristine", self.store)
        ended = self.run(FIRST)
        assert ended.code == 0, ended

    def objects_of(self, ended: Ended) -> set[str]:
        """Digests of the objects that a run's artifacts consist of."""
        trees = {stage["tree"] for stage in ended.document["stages"]}
        manifests = (json.loads(self.object(tree).read_bytes()) for tree in trees)
        return trees | {file["digest"] for manifest in manifests for file in manifest["files"]}

    def artifacts(self) -> dict[str, str]:
        """What is in `out/` for each stage: path -> fingerprint."""
        return {
            f"{stage}/{name}": digest
            for stage in self.subject.stages
            for name, digest in contents(self.out / stage).items()
        }

    def object(self, digest: str) -> Path:
        """Where an object is."""
        return self.store / "objects" / digest[:2] / digest[2:]

    def damage(self, variant: str) -> tuple[str, ...]:
        """What is not as a clean run leaves it, in `out/` and in the objects."""
        artifacts, clean = self.artifacts(), self.clean[variant]
        changed = sorted(path for path in artifacts.keys() | clean.keys() if artifacts.get(path) != clean.get(path))
        broken = sorted(digest for digest in self.objects[variant] if fingerprint(self.object(digest)) != digest)
        return (
            *(f"out/{self.subject.pipeline}/{path}" for path in changed),
            *(f"object {digest}" for digest in broken),
        )

    def judge(self, variant: str, ended: Ended, before: Sequence[str], forced: str = "") -> Judgement:
        """What a run came to, given what was damaged before it."""
        if complaint := self.complaint(ended):
            return complaint
        if damage := self.damage(variant):
            return Judgement("wrong", f"exit 0 with {', '.join(damage)}")
        built, notices = set(ended.stages("built")) - {forced}, ended.notices()
        if built:
            return Judgement("rebuilt", ", ".join(sorted(built)))
        if before and not notices and not forced:
            return Judgement("wrong", f"repaired without a word: {', '.join(before)}")
        return Judgement("repaired", "; ".join(notices)) if notices else Judgement("survived")

    def complaint(self, ended: Ended) -> Judgement | None:
        """What became of a command that has not ended well; None for one that has."""
        if ended.code == BUG or "Traceback" in ended.out + ended.err:
            return Judgement("wrong", f"exit {ended.code}: {ended.out}{ended.err}")
        if ended.code != 0:
            return self._refusal(ended)
        return Judgement("wrong", f"exit 0, and on stderr: {ended.err}") if ended.err else None

    def _refusal(self, ended: Ended) -> Judgement:
        error = ended.document.get("error")
        failed = [stage["failure"] for stage in ended.document.get("stages", ()) if "failure" in stage]
        for problem in [error] if error else failed:
            if not (problem["problem"] and (problem.get("hint") or problem.get("problems"))):
                return Judgement("wrong", f"exit {ended.code} without a way on: {problem}")
        if not (error or failed):
            return Judgement("wrong", f"exit {ended.code} and no error: {ended.out}{ended.err}")
        return Judgement(
            "refused",
            " / ".join(f"{problem['problem']}: {problem.get('why', '')}" for problem in ([error] if error else failed)),
        )


def process(rig: Rig, arguments: Sequence[str]) -> Ended:
    """Run `orun` in a process of its own."""

    def limit() -> None:
        for resource_name, value in rig.ceilings.items():
            resource.setrlimit(resource_name, (value, value))

    try:
        ended = subprocess.run(
            command(arguments),
            cwd=rig.project,
            env=rig.environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            preexec_fn=limit if rig.ceilings else None,
        )
    except subprocess.TimeoutExpired:
        return Ended(KILLED, "", "")  # an end that nothing explains: wrong
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def command(arguments: Sequence[str]) -> list[str]:
    """The command line that starts `orun` in a process of its own."""
    return [sys.executable, "-P", str(PROGRAM), *arguments]


def environment() -> dict[str, str]:
    """The environment of every process on a rig: all run the `orun` beside these tests, whichever is installed.

    They write byte code, as programs do by default.
    """
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    path = os.environ.get("PYTHONPATH")
    return {**variables, "PYTHONPATH": f"{CHECKOUT}{os.pathsep}{path}" if path else str(CHECKOUT)}


def inside(rig: Rig, arguments: Sequence[str]) -> Ended:
    """Run `orun` in this process, which saves starting one."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(rig.project), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    return Ended(code, out.getvalue(), err.getvalue())
