"""Several processes on one cold store: they share the work, and each ends as if it were alone."""

from __future__ import annotations

import subprocess
from collections import Counter

from tests.faults.folders import remove
from tests.faults.rig import PATIENCE, Ended, Judgement, Rig, command


def trial(rig: Rig, count: int, variants: int) -> Judgement:
    """Run `count` processes at once, `variants` different pipelines among them, on an empty store."""
    remove(rig.store)
    names = list(rig.subject.variants)[:variants]
    chosen = [names[number % len(names)] for number in range(count)]
    runs = [
        subprocess.Popen(
            command(rig.command_line(variant)),
            cwd=rig.project,
            env=rig.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for variant in chosen
    ]
    outputs = [run.communicate(timeout=PATIENCE) for run in runs]
    ended = [Ended(run.returncode, *output) for run, output in zip(runs, outputs, strict=True)]
    for command_ended in ended:
        if (command_ended.code, command_ended.err) != (0, ""):
            return Judgement("wrong", f"exit {command_ended.code}: {command_ended.out}{command_ended.err}")
    keys = Counter(stage["key"] for run in ended for stage in run.document["stages"] if stage["outcome"] == "built")
    if twice := [key for key, times in keys.items() if times > 1]:
        return Judgement("wrong", f"built more than once: {', '.join(twice)}")
    wanted = {stage["key"] for run in ended for stage in run.document["stages"]}
    if wanted != set(keys):
        return Judgement("wrong", f"never built: {', '.join(wanted - set(keys))}")
    for variant in names:
        judgement = rig.judge(variant, rig.run(variant), ())
        if judgement.outcome not in ("survived", "repaired"):
            return judgement
    return Judgement("survived")
