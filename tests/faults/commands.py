"""Commands of which a call to the system fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from orun.history import History, locate_history
from tests.faults.calls import Counts, Failing
from tests.faults.folders import remove
from tests.faults.projects import FIRST
from tests.faults.rig import Rig, process

EDIT = "by hand"
BASELINE = "project/pipeline.baseline.json"
ACCEPT = ("baseline", "accept", "pipeline.yaml")
WITH_REMOTE = ("--remote", "REMOTE")


@dataclass(frozen=True)
class Command:
    """What is tried.

    Attributes:
        prepare: makes the rig ready for it.
        command_line: its arguments, but for `--json` and `--store`.
        check: what is wrong when it, or the run after it, has ended well; nothing if all is as it should be.
        makes: the file that is there when it has ended well, from the rig's folder; none if empty.
        after: further words of the run that comes next.
        is_run: whether it is a run that leaves the artifacts of the first variant.
        answers: whether it changes nothing, and says the same each time.
    """

    prepare: Callable[[Rig], None]
    command_line: tuple[str, ...] = ("pipeline.yaml",)
    check: Callable[[Rig], str] = lambda _: ""
    makes: str = ""
    after: tuple[str, ...] = ()
    is_run: bool = False
    answers: bool = False


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
    for path in (*rig.project.glob("*pipeline.baseline.json*"), *(rig.folder / "tmp").iterdir()):
        if path.is_dir():  # what could not be removed, too
            remove(path)
        else:
            path.unlink()
    for name in ("remote", "aside"):
        remove(rig.folder / name)
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
    ended = rig.start(rig, command_line(rig, *ACCEPT))
    assert ended.code == 0, ended


def whole_baseline(rig: Rig) -> str:
    """The baseline is one, if there is one, says what one that is made now says, and can be accepted again."""
    documents = []
    for verb in (*(("show",) if baseline(rig).exists() else ()), "accept", "show"):
        options = () if verb == "show" else ("--store", str(rig.store))
        ended = rig.start(rig, ("baseline", verb, "pipeline.yaml", "--json", *options))
        if ended.code != 0:
            return f"baseline {verb}: exit {ended.code}: {ended.out}{ended.err}"
        if verb == "show":
            stages = ended.document["stages"]
            documents.append({stage: {**record, "date": "", "run": ""} for stage, record in stages.items()})
    return "" if documents[0] == documents[-1] else f"baseline show: {documents[0]} in the place of {documents[-1]}"


def dropped(rig: Rig) -> str:
    """What is accepted can be dropped, and is gone then, also from the pins."""
    if baseline(rig).exists():
        ended = rig.start(rig, command_line(rig, "baseline", "drop", "pipeline.yaml"))
        if ended.code != 0 or baseline(rig).exists():
            return f"baseline drop: exit {ended.code}: {ended.out}{ended.err}"
    left = sorted(path.name for path in (rig.store / "pins").iterdir())
    return f"pins: {', '.join(left)}" if left else ""


def pinned(rig: Rig) -> str:
    """There are no other pins than the one that is made, and that can be made again."""
    for verb in (("pins",), ("pin", "v1", "text/join"), ("pins",)):
        ended = rig.start(rig, command_line(rig, "store", *verb))
        if ended.code != 0:
            return f"{' '.join(verb)}: exit {ended.code}: {ended.out}{ended.err}"
    names = [pin["name"] for pin in ended.document["pins"]]
    return "" if names == ["v1"] else f"pins: {names}"


def damaged_history(rig: Rig) -> None:
    """A history that is no database."""
    warm(rig)
    locate_history(rig.store).write_bytes(bytes(range(256)) * 64)


def whole_history(rig: Rig) -> str:
    """The history can be mended, and has all that runs have measured then."""
    ended = rig.start(rig, command_line(rig, "history", "--mend"))
    if ended.code != 0 or ended.err:
        return f"history --mend: exit {ended.code}: {ended.out}{ended.err}"
    recorded = {point.run for point in History(locate_history(rig.store)).read_points()}
    stored = {path.parent.name for path in rig.store.glob("runs/*/record.json") if '"letters"' in path.read_text()}
    built = {run for run in stored if '"outcome":"built"' in (rig.store / "runs" / run / "record.json").read_text()}
    return f"not in the history: {', '.join(sorted(built - recorded))}" if built - recorded else ""


def whole_remote(rig: Rig, url: str = "") -> str:
    """Whoever has nothing but the remote gets everything from there; that of the rig where no other is named."""
    (rig.folder / "aside").mkdir()
    rig.store.rename(rig.folder / "aside" / "store")
    rig.store.mkdir()
    try:
        ended = rig.run(FIRST, "--remote", url or remote(rig))
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


def command_line(rig: Rig, *command: str) -> tuple[str, ...]:
    """A command line on the rig's store."""
    return (*(word.replace("REMOTE", remote(rig)) for word in command), "--json", "--store", str(rig.store))


def asking(*command: str) -> Command:
    """A command that changes nothing."""
    return Command(warm, command, answers=True)


COMMANDS: Mapping[str, Command] = {
    "cold": Command(cold, is_run=True),
    "nothing to do": Command(warm, is_run=True),
    "restore": Command(without_outputs, is_run=True),
    "edited": Command(edited, check=kept, is_run=True),
    "forced": Command(warm, ("pipeline.yaml", "--force", "join"), is_run=True),
    "gc": Command(warm, ("store", "gc", "--runs", "1")),
    "accept": Command(warm, ACCEPT, whole_baseline, makes=BASELINE),
    "accept again": Command(accepted, ACCEPT, whole_baseline, makes=BASELINE),
    "drop": Command(accepted, ("baseline", "drop", "pipeline.yaml"), dropped),
    "push": Command(cold, ("pipeline.yaml", *WITH_REMOTE), whole_remote, after=WITH_REMOTE, is_run=True),
    "pull": Command(filled_remote, ("pipeline.yaml", *WITH_REMOTE), after=WITH_REMOTE, is_run=True),
    "pin": Command(warm, ("store", "pin", "v1", "text/join"), pinned),
    "mend": Command(damaged_history, ("history", "--mend"), whole_history),
    "rebuild": Command(warm, ("verify", "pipeline.yaml", "--rebuild", "join")),
    "plan": asking("plan", "pipeline.yaml"),
    "explain": asking("explain", "pipeline.yaml", "join"),
    "history": asking("history"),
    "diff": asking("diff"),
    "verify": asking("store", "verify"),
}


def count(rig: Rig, failing: Failing, name: str) -> Counts:
    """How many calls a command makes; it must go well."""
    command = COMMANDS[name]
    command.prepare(rig)
    with failing.of(rig, None):
        ended = process(rig, command_line(rig, *command.command_line))
    assert ended.code == 0, ended
    return failing.counts()
