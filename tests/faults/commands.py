"""Commands of which a call to the system fails, and what has to be so afterwards."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from orun.errors import StoreError, UsageError
from orun.history import History, location
from orun.store.layout import FOLDERS
from tests.faults import deaths
from tests.faults.calls import HOW, LOOKS, Counts, Failing, Fault
from tests.faults.folders import remove
from tests.faults.projects import FIRST, TEXT
from tests.faults.rig import Ended, Judgement, Rig

EDIT = "by hand"
NOTHING = "(?!)"
# Folders of a rig, and the names that may be in them once a run has gone well.
NAMES: Mapping[str, str] = {
    "project": r"pipeline\.yaml|pipeline\.baseline\.json|(stages|helper)\.py|data\.txt|__pycache__",
    "tmp": NOTHING,
    "store": rf"{'|'.join(FOLDERS)}|VERSION|\.gitignore|history\.sqlite",
    "store/tmp": NOTHING,
    "store/locks": NOTHING,
    "store/objects": "[0-9a-f]{2}",
    "store/objects/*": "[0-9a-f]{62}",
    "store/actions/*/*": r"[0-9a-f]{64}\.json",
    "store/latest/*": r"[a-z]+\.json",
    "store/out/*": "|".join(TEXT.stages),
    "store/runs/*": r"events\.jsonl|record\.json|logs|sources",
    "store/index": r"[0-9]+\.sqlite(-wal|-shm)?|run-[0-9a-f]+\.json|remote-[0-9a-f]+\.txt",
    "remote/**": "[^#]*",  # obstore writes to a name with a number before it renames
}


@dataclass(frozen=True)
class Command:
    """What is tried.

    Attributes:
        prepare: makes the rig ready for it.
        words: its command line, but for `--json` and `--store`.
        check: what is wrong when it, or the run after it, has ended well; nothing if all is as it should be.
        makes: the file that is there when it has ended well, from the rig's folder; none if empty.
        after: further words of the run that comes next.
        is_run: whether it is a run that leaves the artifacts of the first variant.
    """

    prepare: Callable[[Rig], None]
    words: tuple[str, ...] = ("pipeline.yaml",)
    check: Callable[[Rig], str] = lambda _: ""
    makes: str = ""
    after: tuple[str, ...] = ()
    is_run: bool = True


def watch_temporary(rig: Rig) -> None:
    """Give the commands of a rig a folder of its own for temporary files."""
    folder = rig.folder / "tmp"
    folder.mkdir()
    rig.variables["TMPDIR"] = str(folder)


def cold(rig: Rig) -> None:
    """An empty store."""
    clear(rig)
    remove(rig.store)
    rig.store.mkdir()


def warm(rig: Rig) -> None:
    """A store in which there is nothing to do."""
    clear(rig)
    rig.reset()


def clear(rig: Rig) -> None:
    """Nothing is left of what other commands have made beside the store."""
    for path in rig.project.glob("*pipeline.baseline.json*"):  # what could not be removed, too
        path.unlink()
    remove(rig.folder / "remote")
    (rig.folder / "remote").mkdir()


def baseline(rig: Rig) -> Path:
    """Where the baseline of a rig is."""
    return rig.folder / BASELINE


def without_outputs(rig: Rig) -> None:
    """A file and a whole folder of outputs are gone."""
    warm(rig)
    remove(rig.out / "left")
    (rig.out / "join").chmod(0o755)
    (rig.out / "join" / "text").unlink()


def edited(rig: Rig) -> None:
    """Somebody has put another file in the place of an output."""
    warm(rig)
    path = rig.out / "join" / "text"
    path.unlink()
    path.write_text(EDIT)


def kept(rig: Rig) -> str:
    """What was made by hand is in quarantine."""
    files = [path for path in (rig.store / "quarantine").rglob("*") if path.is_file()]
    return "" if any(path.read_text() == EDIT for path in files) else "what was made by hand is gone"


def accepted(rig: Rig) -> None:
    """A store in which there is nothing to do, and a baseline of the run before."""
    warm(rig)
    ended = rig.start(rig, words(rig, *ACCEPT))
    assert ended.code == 0, ended


def whole_baseline(rig: Rig) -> str:
    """The baseline is one, if there is one, and can be accepted again."""
    for verb in (*(("show",) if baseline(rig).exists() else ()), "accept", "show"):
        where = () if verb == "show" else ("--store", str(rig.store))
        ended = rig.start(rig, ("baseline", verb, "pipeline.yaml", "--json", *where))
        if ended.code != 0:
            return f"baseline {verb}: exit {ended.code}: {ended.out}{ended.err}"
    return ""


def whole_remote(rig: Rig) -> str:
    """Whoever has nothing but the remote gets everything from there."""
    (rig.folder / "aside").mkdir()
    rig.store.rename(rig.folder / "aside" / "store")
    rig.store.mkdir()
    try:
        ended = rig.run(FIRST, "--remote", remote(rig))
        if ended.code != 0 or ended.err:
            return f"with the remote alone: exit {ended.code}: {ended.out}{ended.err}"
        if built := ended.stages("built"):
            return f"not in the remote: {', '.join(built)}"
        return ", ".join(rig.damage(FIRST))
    finally:
        remove(rig.store)
        (rig.folder / "aside" / "store").rename(rig.store)
        (rig.folder / "aside").rmdir()


def remote(rig: Rig) -> str:
    """The URL of the rig's remote."""
    return f"file://{rig.folder}/remote"


def filled_remote(rig: Rig) -> None:
    """A remote that has everything, and an empty store."""
    cold(rig)
    ended = rig.run(FIRST, "--remote", remote(rig))
    assert ended.code == 0, ended
    remove(rig.store)
    rig.store.mkdir()


def words(rig: Rig, *command: str) -> tuple[str, ...]:
    """A command line on the rig's store."""
    return (*(word.replace("REMOTE", remote(rig)) for word in command), "--json", "--store", str(rig.store))


BASELINE = "project/pipeline.baseline.json"
ACCEPT = ("baseline", "accept", "pipeline.yaml")
WITH_REMOTE = ("--remote", "REMOTE")
COMMANDS: Mapping[str, Command] = {
    "cold": Command(cold),
    "nothing to do": Command(warm),
    "restore": Command(without_outputs),
    "edited": Command(edited, check=kept),
    "forced": Command(warm, ("pipeline.yaml", "--force", "join")),
    "gc": Command(warm, ("store", "gc", "--runs", "1"), is_run=False),
    "accept": Command(warm, ACCEPT, whole_baseline, makes=BASELINE, is_run=False),
    "accept again": Command(accepted, ACCEPT, whole_baseline, makes=BASELINE, is_run=False),
    "push": Command(cold, ("pipeline.yaml", *WITH_REMOTE), whole_remote, after=WITH_REMOTE),
    "pull": Command(filled_remote, ("pipeline.yaml", *WITH_REMOTE), after=WITH_REMOTE),
    "history": Command(warm, ("history",), is_run=False),
}


def count(rig: Rig, failing: Failing, name: str) -> Counts:
    """How many calls a command makes; it must go well."""
    command = COMMANDS[name]
    command.prepare(rig)
    with failing.of(rig, None):
        ended = rig.start(rig, words(rig, *command.words))
    assert ended.code == 0, ended
    return failing.counts()


def trial(rig: Rig, failing: Failing, name: str, fault: Fault) -> tuple[str, Judgement]:
    """Let a call of a command fail, and then do without: nothing may be lost, nor left behind, nor be wrong."""
    command = COMMANDS[name]
    command.prepare(rig)
    before = Before.of(rig)
    token = f"{os.getpid()}-{Random().getrandbits(32):x}"
    rig.variables[deaths.MARK] = token
    with failing.of(rig, fault):
        ended = rig.start(rig, words(rig, *command.words))
    del rig.variables[deaths.MARK]
    what = f"{name}: {fault}: {failing.failed() or 'nothing failed'}"
    judgement = _judged(rig, command, ended)
    if judgement.outcome != "wrong" and (orphans := deaths.surviving(token)):
        judgement = Judgement("wrong", f"{len(orphans)} orphans: {orphans}")
    if judgement.outcome != "wrong" and (wrong := _afterwards(rig, command, before.and_then(rig), fault)):
        judgement = Judgement("wrong", f"{judgement.outcome} ({judgement.why}), then {wrong}")
    return what, judgement


@dataclass(frozen=True)
class Before:
    """What may not be lost: stages with a result, ids of runs that have ended, and measurements."""

    stages: frozenset[str]
    runs: frozenset[str]
    points: frozenset[object]

    @classmethod
    def of(cls, rig: Rig) -> Before:
        """What there is now."""
        records = rig.store.glob("runs/*/record.json")
        points = History(location(rig.store)).points()
        return cls(frozenset(deaths.stored(rig)), frozenset(path.parent.name for path in records), frozenset(points))

    def and_then(self, rig: Rig) -> Before:
        """With the stages that the run has said to be built, which is the last of its kind."""
        built = set[str]()
        for line in deaths.happened(rig):
            with suppress(ValueError):  # the line that it could not write to the end
                event = json.loads(line)
                if event["event"] == "stage_finished" and event["result"]["outcome"] == "built":
                    built.add(event["result"]["stage"])
        return Before(self.stages | built, self.runs, self.points)


def _judged(rig: Rig, command: Command, ended: Ended) -> Judgement:
    """What the command came to by itself."""
    if ended.code not in (0, UsageError.exit_code, StoreError.exit_code):
        return Judgement("wrong", f"exit {ended.code}: {ended.out}{ended.err}")
    if command.is_run:
        return rig.judge(FIRST, ended, ())
    if complaint := rig.complaint(ended):
        return complaint
    wrong = command.check(rig) if (rig.folder / command.makes).exists() else f"no {command.makes}"
    return Judgement("wrong", f"exit 0, and {wrong}") if wrong else Judgement("survived")


def _afterwards(rig: Rig, command: Command, before: Before, fault: Fault) -> str:
    """What is wrong when a run without a fault has followed."""
    stages = set() if fault.kind in LOOKS else set(before.stages)
    after = deaths.afterwards(rig, stages, *(word.replace("REMOTE", remote(rig)) for word in command.after))
    if after.outcome == "wrong":
        return after.why
    now = Before.of(rig)
    if lost := before.points - now.points:
        return f"lost of the history: {lost}"
    if command.words[:2] != ("store", "gc") and (gone := before.runs - now.runs):
        return f"lost runs: {', '.join(sorted(gone))}"
    if (left := left_behind(rig)) and not unremovable(fault):
        return f"left behind: {', '.join(left)}"
    return command.check(rig)


def unremovable(fault: Fault) -> bool:
    """Whether a command cannot remove what it has made, or does not know that it has made it."""
    return fault.kind == "unlink" or (fault.kind == "open" and fault.how == HOW[-1])


def left_behind(rig: Rig) -> list[str]:
    """Files and folders that no run without a fault would leave."""
    return [
        path.relative_to(rig.folder).as_posix()
        for folders, expected in NAMES.items()
        for folder in rig.folder.glob(folders)
        for path in sorted(folder.iterdir())
        if not re.fullmatch(expected, path.name)
    ]
