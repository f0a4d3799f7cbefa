"""`orun` as a program: `python program.py FOLDER WORDS...`.

FOLDER stands for the machine, which stages that measure have to themselves: tests do not wait for one another.
"""

from __future__ import annotations

import sys
from pathlib import Path

from orun.cli.main import main
from orun.fs import machine_locks

if __name__ == "__main__":
    machine_locks.MACHINE = Path(sys.argv[1])
    sys.exit(main(sys.argv[2:]))
