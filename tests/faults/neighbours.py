"""A call of a command fails while another process runs on the same store, which has to end as if it were alone."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from random import Random

from tests.faults import deaths
from tests.faults.calls import Failing, Fault
from tests.faults.commands import COMMANDS, command_line, remote
from tests.faults.failures import Before, afterwards, judged
from tests.faults.projects import FIRST
from tests.faults.rig import Judgement, Rig, process

NAMES = tuple(name for name, command in COMMANDS.items() if not command.answers)


def trial(rig: Rig, failing: Failing, name: str, fault: Fault) -> tuple[str, Judgement]:
    """Let a call of a command fail beside a run of which none does; then run again."""
    command = COMMANDS[name]
    command.prepare(rig)
    before = Before.of(rig)
    token = f"{os.getpid()}-{Random().getrandbits(32):x}"
    variables = {**rig.variables, deaths.MARK: token}
    after = tuple(word.replace("REMOTE", remote(rig)) for word in command.after)
    failing.set(fault)
    with ThreadPoolExecutor() as pool:
        unlucky = replace(rig, variables={**variables, **failing.variables})
        failed = pool.submit(process, unlucky, command_line(rig, *command.command_line))
        run = process(replace(rig, variables=variables), rig.command_line(FIRST, *after))
        ended = failed.result()
    description = f"{name}: {fault}: {failing.failed() or 'nothing failed'}"
    judgement = judged(rig, command, ended, {}, fault.error)
    if run.code != 0 or run.err:
        judgement = Judgement("wrong", f"the one beside: exit {run.code}: {run.out}{run.err}")
    elif damage := rig.damage(FIRST):
        judgement = Judgement("wrong", f"the one beside: exit 0 with {', '.join(damage)}")
    return description, deaths.in_all(judgement, token, lambda: afterwards(rig, command, before.and_then(rig), fault))
