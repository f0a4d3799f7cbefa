"""`orun`, and `python -m orun`."""

from __future__ import annotations

import gc
import sys

COLLECTED_AT = 50_000  # objects made since the last collection; what any verb imports makes fewer


def main() -> int:
    """Run the command line of this process; returns its exit code.

    Python looks for cycles whenever it has made 700 objects, and twice among all of them when it ends: a sixth of what
    a run with nothing to do takes. Nothing that has to be closed is left to be found so.
    """
    gc.set_threshold(COLLECTED_AT)
    from orun.cli import main as command_line

    try:
        return command_line.main()
    finally:
        gc.freeze()


if __name__ == "__main__":
    sys.exit(main())
