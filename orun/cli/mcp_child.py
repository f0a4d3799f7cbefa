"""Program of a verb that `orun mcp` calls: the command line, which ends when the server does."""

from __future__ import annotations

import signal
import sys

from orun.cli.main import main
from orun.environment.processes import die_with

if __name__ == "__main__":
    die_with(int(sys.argv[1]), signal.SIGTERM)  # a run that has started stops its stages
    sys.exit(main(sys.argv[2:]))
