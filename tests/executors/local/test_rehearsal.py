"""The stage that a fork server does before it forks: it comes to its end, and nothing of it is left."""

from __future__ import annotations

import json
import subprocess
import sys

from orun.executors.local.rehearsal import HERE

SCRIPT = """
import json, os, sys
from importlib.machinery import SourceFileLoader
from orun.executors.tracing.observer import Observer
from orun.executors.local.rehearsal import rehearse
from orun.stages import code

def state():
    imports = [sys.path, sys.meta_path, sys.path_hooks, sorted(sys.modules), code.LOADED, code.TEXTS,
               SourceFileLoader.path_stats]
    noted = [observer.recorder.reads, observer.recorder.listings, observer.variables.found, observer.probes.found]
    return repr([imports, noted, observer.recorder.written, observer.variables.own, os.listdir("/proc/self/fd")])

observer = Observer()
observer.install()
before = state()
heard = rehearse(observer)
open(__import__("orun").__file__).close()
print(json.dumps([heard, before == state()]))
"""


def test_a_rehearsal_succeeds_and_leaves_nothing_behind() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True, timeout=60)
    (started, said), unchanged = json.loads(done.stdout)
    assert started["stage"] == said["stage"] == "rehearsal"
    assert set(said["result"]["metrics"]) == {"length"}
    assert set(said["result"]["reads"]) == {f"{HERE}/nothing.py"}
    assert unchanged
