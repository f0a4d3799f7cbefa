"""Git, as far as tests need repositories of their own; whoever runs them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SETTINGS = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
QUIET = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}


def git(folder: Path, *arguments: str) -> str:
    """What a command of git says; it must not fail."""
    process = subprocess.run(
        ["git", *SETTINGS, *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | QUIET,
    )
    return process.stdout.strip()


def commit(folder: Path, message: str) -> str:
    """Commit all that is there; the commit."""
    git(folder, "add", ".")
    git(folder, "commit", "-qm", message)
    return git(folder, "rev-parse", "HEAD")
