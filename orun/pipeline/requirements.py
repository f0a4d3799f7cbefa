"""Requirements files of pip, with the files that they include in their place."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from orun.fs.observed_state import digest_file, require_regular

INCLUDE = re.compile(r"(-r|--requirement|-c|--constraint)(?:\s+|=|(?<=-r)|(?<=-c))(?P<file>\S.*)")
COMMENT = re.compile(r"(^|\s+)#.*$")
# What is not on a package index: its bytes would not be known to anybody.
LOCAL = re.compile(
    r"(-e\b|--editable\b|\.{0,2}/|file:|[A-Za-z0-9._-]+(\[[^\]]*\])?\s*@\s*file:|\S+\.(whl|tar\.gz|zip)$)"
)


@dataclass
class Requirements:
    """What files say.

    Attributes:
        lines: requirements and options, without comments and line continuations.
        constraints: those of constraint files.
        local: lines that name a local file or folder, each with its place.
        digests: of every file that was read, by its path.
    """

    lines: list[str] = field(default_factory=list)
    constraints: list[str] = field(default_factory=list)
    local: list[str] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)

    def read(self, path: Path, *, constrains: bool = False) -> None:
        """Add what a file says.

        Raises:
            OSError: when it, or one that it includes, cannot be read.
            UnicodeDecodeError: when it is no text.
        """
        path = Path(os.path.normpath(path))
        if str(path) in self.digests:
            return
        require_regular(path)
        text = path.read_text("utf-8")
        self.digests[str(path)] = digest_file(path)
        for line in re.sub(r"\\\n\s*", "", text).splitlines():
            said = COMMENT.sub("", line).strip()
            if include := INCLUDE.fullmatch(said):
                self.read(path.parent / include["file"].strip(), constrains=constrains or "c" in include[1][:3])
            elif LOCAL.match(said):
                self.local.append(f"{path.name}: {said}")
            elif said:
                (self.constraints if constrains else self.lines).append(said)
