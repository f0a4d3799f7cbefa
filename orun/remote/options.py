"""Remote options of a command line or a call; light, for a run with nothing to do."""

from __future__ import annotations

from pathlib import Path

from orun.core.serialization import Record

URL, MODE = "ORUN_REMOTE", "ORUN_REMOTE_MODE"
VARIABLES = (URL, MODE)
FETCHED = "fetched from the remote"  # a reason of a stage that is up to date


class Remote(Record, frozen=True):
    """A remote store to use.

    Attributes:
        url: where it is: `file://`, `s3://`, `gs://`, `az://`, `http://` or `https://`; `off` for none. What
            `$ORUN_REMOTE` or the project's `pyproject.toml` says when None.
        mode: `read` or `read-write`; read-write where that can be when None.
        required: whether the run fails when the remote cannot be used, instead of going on without it.
    """

    url: str | None = None
    mode: str | None = None
    required: bool = False


def config_file(project: Path) -> Path:
    """The file with a project's settings, whether it is there or not."""
    return project / "pyproject.toml"
