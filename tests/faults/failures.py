"""Conditions after a failed call of a command, and after the run that comes next."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from orun.errors import StoreError, UsageError
from orun.eventlog import read_result
from orun.history import History, locate_history
from orun.store.layout import FOLDERS
from tests.faults import deaths
from tests.faults.calls import HOW, LOOKS, Counts, Failing, Fault
from tests.faults.commands import COMMANDS, EDIT, Command, command_line, remote
from tests.faults.folders import fingerprint
from tests.faults.projects import FIRST, TEXT
from tests.faults.rig import Ended, Judgement, Rig, process

NOTHING = "(?!)"
# Folders of a rig, and the names that may be in them once a run has gone well.
NAMES: Mapping[str, str] = {
    "project": r"pipeline\.yaml|pipeline\.baseline\.json|(stages|helper)\.py|data\.txt|__pycache__",
    "tmp": NOTHING,
    "store": rf"{'|'.join(FOLDERS)}|VERSION|\.gitignore|history\.sqlite(\.damaged)?",
    "store/tmp": NOTHING,
    "store/locks": NOTHING,
    "store/objects": "[0-9a-f]{2}",
    "store/objects/*": "[0-9a-f]{62}",
    "store/actions/*/*": r"[0-9a-f]{64}\.json",
    "store/latest/*": r"[a-z]+\.json",
    "store/out/*": "|".join(TEXT.stages),
    "store/runs/*": r"events\.jsonl|record\.json|logs|sources",
    "store/index": r"signatures\.sqlite(-wal|-shm)?|run-[0-9a-f]+\.json|remote-[0-9a-f]+\.txt",
    "remote/**": "[^#]*",  # obstore writes to a name with a number before it renames
}


def some_trial(
    attempt: Callable[[Fault], tuple[str, Judgement]], failing: Failing, counts: Counts, chance: Random
) -> tuple[Fault, str, Judgement]:
    """Let any of a command's calls fail: one that there is this time, too, which differs a little from run to run."""
    while True:
        fault = Fault.any(chance, counts)
        description, judgement = attempt(fault)
        if failing.failed() or judgement.outcome == "wrong":
            return fault, description, judgement


def trial(rig: Rig, failing: Failing, name: str, fault: Fault) -> tuple[str, Judgement]:
    """Let a call of a command fail, and then do without: nothing may be lost, nor left behind, nor be wrong."""
    command = COMMANDS[name]
    command.prepare(rig)
    before = Before.of(rig)
    answer = rig.start(rig, command_line(rig, *command.command_line)).document if command.answers else {}
    token = f"{os.getpid()}-{Random().getrandbits(32):x}"
    rig.variables[deaths.MARK] = token
    with failing.of(rig, fault):
        ended = process(rig, command_line(rig, *command.command_line))
    del rig.variables[deaths.MARK]
    description = f"{name}: {fault}: {failing.failed() or 'nothing failed'}"
    judgement = judged(rig, command, ended, answer, fault.error)
    return description, deaths.in_all(judgement, token, lambda: afterwards(rig, command, before.and_then(rig), fault))


@dataclass(frozen=True)
class Before:
    """What may not be lost: stages with a result, ids of runs that have ended, and measurements."""

    stages: frozenset[str]
    runs: frozenset[str]
    points: frozenset[object]

    @classmethod
    def of(cls, rig: Rig) -> Before:
        """What there is now; of a history that is damaged, nothing."""
        records = rig.store.glob("runs/*/record.json")
        points = frozenset[object]()
        with suppress(StoreError):
            points = frozenset(History(locate_history(rig.store)).read_points())
        return cls(frozenset(deaths.stored(rig)), frozenset(path.parent.name for path in records), points)

    def and_then(self, rig: Rig) -> Before:
        """With the stages that the run has said to be built, which is the last of its kind."""
        built = set[str]()
        for line in deaths.happened(rig):
            with suppress(ValueError):  # the line that it could not write to the end
                event = json.loads(line)
                if event["event"] == "stage_finished" and event["result"]["outcome"] == "built":
                    built.add(event["result"]["stage"])
        return Before(self.stages | built, self.runs, self.points)


def judged(rig: Rig, command: Command, ended: Ended, answer: Mapping[str, object], error: int) -> Judgement:
    """What the command came to by itself; `error` is what its call failed with."""
    if ended.code == 1 and error == errno.EIO and (problems := ended.document.get("problems")):
        return Judgement("repaired", "; ".join(problems))  # what a disk does not give is damaged
    if ended.code not in (0, UsageError.exit_code, StoreError.exit_code):
        return Judgement("wrong", f"exit {ended.code}: {ended.out}{ended.err}")
    if strange := strange_outputs(rig):
        return Judgement("wrong", f"exit {ended.code}, and {', '.join(strange)}")
    if command.is_run:
        judgement = rig.judge(FIRST, ended, ())
        if ended.code == 0 and judgement.outcome != "wrong" and (wrong := unrecorded(ended)):
            return Judgement("wrong", f"exit 0, and {wrong}")
        return judgement
    stages = ended.document.get("stages", ())
    if ended.code == StoreError.exit_code and (
        why := [stage["why"] for stage in stages if stage.get("verdict") == "failed"]
    ):
        return Judgement("refused", " / ".join(why))
    if complaint := rig.complaint(ended):
        return complaint
    if answer and ended.document != answer:
        return Judgement("wrong", f"{ended.out} in the place of {json.dumps(answer)}")
    wrong = command.check(rig) if (rig.folder / command.makes).exists() else f"no {command.makes}"
    return Judgement("wrong", f"exit 0, and {wrong}") if wrong else Judgement("survived")


def strange_outputs(rig: Rig) -> list[str]:
    """What people can open that no run has made, nor somebody by hand: it is there whole or not at all."""
    clean = rig.clean[FIRST]
    return [
        f"out/{rig.subject.pipeline}/{path} holds something else"
        for path, digest in rig.artifacts().items()
        if digest != clean.get(path) and (rig.out / path).read_text() != EDIT
    ]


def unrecorded(ended: Ended) -> str:
    """How the record of a run differs from what it printed."""
    try:
        record = read_result(Path(ended.document["folder"]))
    except StoreError as error:
        return error.problem
    recorded = {stage["stage"]: stage["tree"] for stage in ended.document["stages"]}
    kept = {stage.stage: stage.tree for stage in record.stages}
    return "" if recorded == kept else f"its record has {kept} in the place of {recorded}"


def afterwards(rig: Rig, command: Command, before: Before, fault: Fault) -> str:
    """What is wrong when a run without a fault has followed."""
    stages = set() if may_look_damaged(fault) else set(before.stages)
    after = deaths.afterwards(rig, stages, *(word.replace("REMOTE", remote(rig)) for word in command.after))
    if after.outcome == "wrong":
        return after.why
    now = Before.of(rig)
    if lost := before.points - now.points:
        return f"lost of the history: {lost}"
    if command.command_line[:2] != ("store", "gc") and (gone := before.runs - now.runs):
        return f"lost runs: {', '.join(sorted(gone))}"
    if (left := left_behind(rig)) and not unremovable(fault):
        return f"left behind: {', '.join(left)}"
    if broken := broken_objects(rig):
        return f"not what their names say: {', '.join(broken)}"
    return command.check(rig)


def may_look_damaged(fault: Fault) -> bool:
    """Whether something cannot be read, and may be made again."""
    return fault.kind in LOOKS or (fault.kind, fault.error) == ("close", errno.EIO)


def unremovable(fault: Fault) -> bool:
    """Whether a command cannot remove what it has made, or does not know that it has made it."""
    return fault.kind == "unlink" or (fault.kind == "open" and fault.how == HOW[-1])


def left_behind(rig: Rig) -> list[str]:
    """Files and folders that no run without a fault would leave."""
    return [
        path.relative_to(rig.folder).as_posix()
        for folders, expected in NAMES.items()
        for folder in rig.folder.glob(folders)
        if folder.is_dir()  # `**` is files as well, from Python 3.13 on
        for path in sorted(folder.iterdir())
        if not re.fullmatch(expected, path.name)
    ]


def broken_objects(rig: Rig) -> list[str]:
    """Objects of which the content has another digest than the name, whether a run needs them or not."""
    objects = {f"{path.parent.name}{path.name}": path for path in (rig.store / "objects").glob("*/*")}
    return sorted(digest for digest, path in objects.items() if fingerprint(path) != digest)
