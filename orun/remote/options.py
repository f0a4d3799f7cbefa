"""Remote options of a command line or a call. Imported by runs with nothing to do."""

from __future__ import annotations

from pathlib import Path

from orun.core.serialization import Record

URL, MODE = "ORUN_REMOTE", "ORUN_REMOTE_MODE"
FLEET = "ORUN_ON"  # URL of the machines that run stages
VARIABLES = (URL, MODE)


class Remote(Record, frozen=True):
    """Remote store to use.

    Attributes:
        url: `file://`, `s3://`, `gs://`, `az://`, `http://` or `https://`; `off` for none. When None, the URL of
            `$ORUN_REMOTE` or of the project's `pyproject.toml`.
        mode: `read` or `read-write`; when None, read-write if that is possible.
        required: fail if the remote cannot be used, instead of continuing without it.
    """

    url: str | None = None
    mode: str | None = None
    required: bool = False


def locate_config(project: Path) -> Path:
    """Return the path of a project's settings, which need not exist."""
    return project / "pyproject.toml"
