"""Pipeline files below a folder, each with what is wrong with it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import orun
from orun.cli.mcp_results import PipelineFile
from orun.errors import OrunError, PipelineError
from orun.fs.bounded_reads import TEXT_LIMIT, read_bounded
from orun.store.layout import VERSION_FILE
from orun.text.positions import format_position

MARK = rb"(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff)?"  # of the encoding, at the beginning of a file
STAGES = re.compile(rb"^" + MARK + rb"stages\s*:", re.MULTILINE)
SUFFIXES = (".yaml", ".yml")
MARKS = ("pyvenv.cfg", VERSION_FILE)  # files of folders that hold no pipelines: virtual environments and stores


def iter_pipeline_files(root: Path) -> Iterator[PipelineFile]:
    """Yield the YAML files with stages, and those that cannot be read, below the working folder.

    Hidden folders, virtual environments and stores are left out.

    Args:
        root: the working folder, without links; files that links lead out of it are left out.
    """
    for folder, folders, files in os.walk(Path()):
        folders[:] = [
            name
            for name in sorted(folders)
            if not name.startswith(".") and not any(Path(folder, name, mark).exists() for mark in MARKS)
        ]
        for path in (Path(folder, name) for name in sorted(files) if name.endswith(SUFFIXES)):
            if Path(os.path.realpath(path)).is_relative_to(root) and (file := _summarize(path)):
                yield file


def _summarize(path: Path) -> PipelineFile | None:
    """Return a file with what is wrong with it; None for YAML of something else."""
    name = _escape(str(path))
    try:
        if not STAGES.search(read_bounded(path, TEXT_LIMIT).replace(b"\0", b"")):  # UTF-16 has zero bytes
            return None
        pipeline = orun.load(path)
    except PipelineError as error:
        first = error.problems[0]
        return PipelineFile(
            name, "", 0, len(error.problems), _escape(f"{format_position(first.position)}: {first.message}")
        )
    except OrunError as error:
        return PipelineFile(name, "", 0, 1, _escape(error.problem))
    except OSError as error:
        return PipelineFile(name, "", 0, 1, f"cannot be read: {error.strerror}")
    return PipelineFile(name, pipeline.name, len(pipeline.stages), 0)


def _escape(text: str) -> str:
    """Return a text that may quote a file's name, with the bytes of a name that is not UTF-8 written out."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
