"""Two or three faults in one state of a store: damage, runs that are killed and collections, in any order."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from tests.faults import deaths
from tests.faults.damage import HARMLESS
from tests.faults.integrity import ORDER, RUNS, Fault, inject, unsettled
from tests.faults.rig import KILLED, Judgement, Rig

LATEST = 1.0  # seconds after its start at which a run is killed, at most
COLLECTIONS = ((), ("--max-size", "1kB"), ("--max-age", "0s"), ("--runs", "1"))


@dataclass(frozen=True)
class Step:
    """What happened to the store.

    Attributes:
        title: what was done.
        quiet: whether a run may mend it, or find it mended, without a word.
        wrong: what was wrong with it by itself; empty when nothing was.
    """

    title: str
    quiet: bool = True
    wrong: str = ""


def damaged(rig: Rig, chance: Random) -> Step:
    """A file or folder of the store is damaged, if one is left of the kind that is drawn."""
    try:
        fault = inject(rig, chance)
    except (OSError, IndexError) as error:  # it is not as it was any more
        return Step(f"no damage: {error}")
    return Step(str(fault).rpartition(", then")[0], quiet=fault.damage in HARMLESS)


def killed(rig: Rig, chance: Random) -> Step:
    """A run is killed at any moment, alone or with its stages."""
    token = f"{os.getpid()}-{chance.getrandbits(32):x}"
    variant = chance.choice(sorted(rig.subject.variants))
    options = chance.choice(((), ("--force",), ("--force", chance.choice(rig.subject.stages))))
    moment, everyone = chance.uniform(0, LATEST), chance.random() < 0.5
    run = deaths.start(rig, token, rig.command_line(variant, *options))
    time.sleep(moment)
    with suppress(ProcessLookupError):
        (os.killpg if everyone else os.kill)(run.pid, signal.SIGKILL)
    run.communicate()
    orphans = deaths.surviving(token)
    description = (
        f"a run of {variant} {' '.join(options)} killed after {moment:.2f} s, {'all of it' if everyone else 'alone'}"
    )
    return Step(description, wrong=f"{len(orphans)} orphans: {orphans}" if orphans else "")


def collected(rig: Rig, chance: Random) -> Step:
    """What nobody needs is removed."""
    command = ("store", "gc", "--store", str(rig.store), *chance.choice(COLLECTIONS))
    ended = rig.start(rig, command)
    bug = ended.code in (KILLED, 5) or "Traceback" in ended.err
    return Step(" ".join(command[:2] + command[4:]), wrong=f"exit {ended.code}: {ended.out}{ended.err}" if bug else "")


STEPS: tuple[Callable[[Rig, Random], Step], ...] = (*(damaged,) * 5, *(killed,) * 2, collected)


def trial(rig: Rig, chance: Random) -> tuple[str, Judgement]:
    """Do all that and run until all is well again; by then nothing may be left to do."""
    rig.reset()
    steps = [chance.choice(STEPS)(rig, chance) for _ in range(chance.choice((2, 2, 3)))]
    mode = chance.choice(sorted(RUNS))
    description = f"{'; '.join(step.title for step in steps)}; then {mode}"
    if wrong := [step.wrong for step in steps if step.wrong]:
        return description, Judgement("wrong", wrong[0])
    fault = Fault("several", HARMLESS[0] if any(step.quiet for step in steps) else "several", "", mode)
    judgement = max((judge(rig, chance, fault) for judge in RUNS[mode]), key=lambda item: ORDER.index(item.outcome))
    if judgement.outcome not in ("refused", "wrong") and (left := unsettled(rig)):
        judgement = Judgement("wrong", f"after {judgement.outcome} ({judgement.why}): {left}")
    return description, judgement
