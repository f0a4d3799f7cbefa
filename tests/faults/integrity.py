"""Damage to the files of a store, and the runs after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.faults.damage import FILE, FOLDER, HARMLESS, delete
from tests.faults.projects import FIRST
from tests.faults.rig import Judgement, Rig


def some(pattern: str) -> Callable[[Rig, Random], Path]:
    """A file or folder of the store that fits a pattern, made by hand when there is none."""

    def pick(rig: Rig, chance: Random) -> Path:
        return chance.choice(sorted(rig.store.glob(pattern)))

    return pick


def an_object(rig: Rig, chance: Random) -> Path:
    """A file of an artifact."""
    return rig.object(chance.choice(sorted(rig.objects[FIRST])))


def a_manifest(rig: Rig, chance: Random) -> Path:
    """The list of files of an artifact."""
    paths = [path for path in map(rig.object, sorted(rig.objects[FIRST])) if path.read_bytes()[:9] == b'{"files":']
    return chance.choice(paths)


def an_output(rig: Rig, chance: Random) -> Path:
    """A file that people open."""
    return rig.out / chance.choice(sorted(rig.clean[FIRST]))


def a_lock(rig: Rig, chance: Random) -> Path:
    """A lock of a process that was killed: on a key, or on a checkout."""
    keys = [path.name for path in sorted(rig.store.glob("actions/*/*"))]
    locks = [f"out {rig.subject.pipeline} {stage}".replace(" ", "%20") for stage in rig.subject.stages]
    path = rig.store / "locks" / chance.choice(keys + locks)
    path.write_text("left behind")
    return path


def a_leftover(rig: Rig, chance: Random) -> Path:
    """What a process that was killed has left in `tmp/`."""
    folder = rig.store / "tmp" / f"{chance.randrange(1 << 22)}-000000000000"
    (folder / "1-source" / "output").mkdir(parents=True)
    names = ("lease", "2-bytes", "1-source/output/text", "1-source/provenance.json")
    for name in names:
        (folder / name).write_text("left behind")
    return folder / chance.choice([*names, "1-source", "1-source/output", "."])


TARGETS: Mapping[str, Callable[[Rig, Random], Path]] = {
    "object": an_object,
    "manifest": a_manifest,
    "any object": some("objects/*/*"),
    "folder of objects": some("objects/*"),
    "action": some("actions/*/*/*"),
    "folder of actions": some("actions/*/*"),
    "pointer": some("latest/*/*"),
    "index": some("index/*.sqlite*"),
    "note": some("index/run-*"),
    "output": an_output,
    "folder of an output": some("out/*/*"),
    "outputs of a pipeline": some("out/*"),
    "record of a run": some("runs/*/record.json"),
    "events of a run": some("runs/*/events.jsonl"),
    "folder of a run": some("runs/*"),
    "lock": a_lock,
    "leftover": a_leftover,
    "version": some("VERSION"),
    "folder of the store": some("[a-z]*"),
}
ORDER = ("survived", "repaired", "rebuilt", "refused", "wrong")


@dataclass(frozen=True)
class Fault:
    """One fault and the run after it.

    Attributes:
        target: what is hit, by its name in `TARGETS`.
        damage: what happens to it, by its name in `FILE` or `FOLDER`.
        path: the file or folder that was hit.
        mode: which runs come next, by its name in `RUNS`.
    """

    target: str
    damage: str
    path: str
    mode: str

    def __str__(self) -> str:
        return f"{self.target}: {self.damage} ({self.path}), then {self.mode}"


def inject(rig: Rig, chance: Random) -> Fault:
    """Do some damage."""
    target = chance.choice(sorted(TARGETS))
    path = TARGETS[target](rig, chance)
    table = FOLDER if path.is_dir() else FILE
    name = chance.choice(sorted(table))
    mode = chance.choice(sorted(RUNS))
    table[name](path, chance)
    return Fault(target, name, path.relative_to(rig.store).as_posix(), mode)


def trial(rig: Rig, chance: Random) -> tuple[Fault, Judgement]:
    """Do some damage and run until all is well again; by then nothing may be left to do."""
    rig.reset()
    fault = inject(rig, chance)
    judgements = [judge(rig, chance, fault) for judge in RUNS[fault.mode]]
    judgement = max(judgements, key=lambda item: ORDER.index(item.outcome))
    if judgement.outcome not in ("refused", "wrong") and (left := unsettled(rig)):
        judgement = Judgement("wrong", f"after {judgement.outcome} ({judgement.why}): {left}")
    return fault, judgement


def again(rig: Rig, _: Random, fault: Fault) -> Judgement:
    """Run as before; the note of the last run may see the damage, or show that it does no harm."""
    before = () if fault.damage in HARMLESS else rig.damage(FIRST)
    return rig.judge(FIRST, rig.run(FIRST), before)


def planned(rig: Rig, chance: Random, fault: Fault) -> Judgement:
    """Run without the note of the last run."""
    with suppress(OSError):  # the fault may keep us from it
        for note in rig.store.glob("index/run-*"):
            delete(note, chance)
    return again(rig, chance, fault)


def forced(rig: Rig, chance: Random, _: Fault) -> Judgement:
    """Run one stage whatever is stored: its inputs are taken from the store."""
    stage = chance.choice(rig.subject.stages)
    return rig.judge(FIRST, rig.run(FIRST, "--force", stage), (), forced=stage)


def other(rig: Rig, _: Random, __: Fault) -> Judgement:
    """Run what asks for other artifacts, which are in the store too."""
    variant = next(name for name in rig.subject.variants if name != FIRST)
    return rig.judge(variant, rig.run(variant), ())


def unsettled(rig: Rig) -> str:
    """What is not in order in a run with nothing to do; that it gives up on a damaged index is no fault."""
    judgement = rig.judge(FIRST, rig.run(FIRST), ())
    return "" if judgement.outcome in ("survived", "repaired") else f"{judgement.outcome}: {judgement.why}"


RUNS: Mapping[str, tuple[Callable[[Rig, Random, Fault], Judgement], ...]] = {
    "again": (again,),
    "again, planned": (planned,),
    "a stage forced": (forced,),
    "another variant, then this one": (other, forced),
}
