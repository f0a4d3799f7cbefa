"""What to type where a difference between two runs could not be mixed here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orun.culprits.changes import Fixed
from orun.culprits.versions import pin

VARIABLES = ("environment ", "looked up ")


def advice(others: Sequence[Fixed], good: str, bad: str) -> Iterator[str]:
    """A line for each sort of difference: what it is for, and the command.

    Args:
        others: the differences.
        good: id of the good run.
        bad: id of the bad run.
    """
    again = f"orun bisect {good} {bad}"
    names = dict.fromkeys(one.name for one in others)
    if pins := dict.fromkeys(filter(None, (pin(one.name, one.old) for one in others))):
        wanted = " ".join(f"'{one}'" for one in pins)
        yield f"packages: python -m venv then && then/bin/pip install orun {wanted} && then/bin/{again}"
    if "stage code" in names:
        yield f"orun itself: `{again}` with the version of orun that made {good}"
    if "python of your code" in names:
        old = next(one.old for one in others if one.name == "python of your code")
        yield f"Python: `{again}` with Python {old}"
    if variables := [name.removeprefix(start) for name in names for start in VARIABLES if name.startswith(start)]:
        yield f"variables: {' '.join(f'{name}=...' for name in variables)} {again}"
    if any(name.startswith("device ") for name in names):
        yield f"the machine: `{again}` on that of {bad}"
