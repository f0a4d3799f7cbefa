"""`orun` as a program: `python program.py WORDS...`."""

from __future__ import annotations

import sys

from orun.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
