"""Write what orun makes of each file beside it, for a human to read: python -m tests.cases.regenerate [NAME...].

Of a bad file that is its message, of a good one its graph.
"""

from __future__ import annotations

import sys

from tests.cases.support import INVALID, VALID, cases, drawn, message

if __name__ == "__main__":
    for folder, result in ((INVALID, message), (VALID, drawn)):
        for case in cases(folder):
            if len(sys.argv) == 1 or case.stem in sys.argv[1:]:
                case.with_suffix(".txt").write_text(result(case), encoding="utf-8")
