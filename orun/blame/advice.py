"""The command to type where a difference between two runs could not be tried here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orun.blame.changes import OWN, PYTHON, Fixed
from orun.blame.versions import pin
from orun.planning.cache_key import MODULES

RESTS = ("device python", "device runtime")  # parts of a device that no other machine brings


def advice(others: Sequence[Fixed], unknown: Sequence[str], good: str, bad: str) -> Iterator[str]:
    """A line for each sort of difference: what it is for, and the command.

    Args:
        others: the differences.
        unknown: variables that would tell what others were in a run.
        good: id of the good run.
        bad: id of the bad run.
    """
    again = f"orun bisect {good} {bad}"
    names = dict.fromkeys(one.name for one in others)
    if pins := dict.fromkeys(filter(None, (pin(one.name, one.old) for one in others))):
        wanted = " ".join(f"'{one}'" for one in pins)
        yield f"packages: python -m venv then && then/bin/pip install orun {wanted} && then/bin/{again}"
    if made := dict.fromkeys(one.old for one in others if one.name == OWN):
        code = f"with the code that made {good} ({', '.join(made)})"
        yield f"orun itself: `{again}` {code}; if the bad run is good there, orun's code did it"
    if old := next((one.old for one in others if one.name in (PYTHON, "device python")), ""):
        yield f"Python: `{again}` with Python {old}"
    if folders := dict.fromkeys(one.old for one in others if one.name == MODULES):
        yield f"modules: PYTHONPATH={' or '.join(folders)} {again}"
    if unknown:
        yield f"variables: {' '.join(f'{name}=...' for name in unknown)} {again}"
    if any(name.startswith("device ") and name not in RESTS for name in names):
        yield f"the machine: `{again}` on that of {bad}"
