"""Snapshot of the source files of a run, in its folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from orun.core.component_kinds import ComponentKind
from orun.core.key_component import index_by_subject
from orun.core.run_record import RunResult
from orun.core.serialization import decode, parse_foreign_json
from orun.executors import Mask
from orun.fs.bounded_reads import RECORD_LIMIT, read_bounded
from orun.fs.observed_state import digest_file
from orun.fs.os_errors import convert_os_errors
from orun.history.git_revision import list_edited
from orun.pipeline.model import Pipeline
from orun.store.checksummed_json import build_record_error

FOLDER = "sources"  # in a run's folder; each file goes by its digest
INDEX = "index.json"  # there: digest of each file by its path from the pipeline's folder
LARGEST = 2**20  # bytes of a source file; larger files are data or models
TEXT = (".cfg", ".ini", ".json", ".py", ".toml", ".txt", ".yaml", ".yml")  # suffixes of source files


def keep(result: RunResult, pipeline: Pipeline) -> None:
    """Store the pipeline file, what it extends, code and small texts of a run, and the digests of all its inputs.

    Files that were edited since, are large, are data, or hold a secret have only their digest.

    Raises:
        StoreError: if it cannot be written.
    """
    folder, mask = result.folder / FOLDER, Mask.of(pipeline.private)
    with convert_os_errors("keep the sources of the run", folder):
        folder.mkdir(exist_ok=True)
        files = _list_files(result, pipeline)
        (folder / INDEX).write_text(json.dumps(files, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        for name, digest in files.items():
            path, kept = pipeline.root / name, folder / digest
            if digest and name.endswith(TEXT) and not kept.exists() and _is_small(path) and digest_file(path) == digest:
                text = path.read_bytes()
                if mask.hide_in_bytes(text) == text:
                    kept.write_bytes(text)


def _is_small(path: Path) -> bool:
    return path.is_file() and path.stat().st_size <= LARGEST


def read_index(result: RunResult) -> Mapping[str, str] | None:
    """Return the digest of each file or folder that a run depends on, by its path from the pipeline's folder.

    None if the snapshot is missing. The digest is empty for files that are named only by stages that did not run.

    Raises:
        StoreError: if it cannot be read.
    """
    path = result.folder / FOLDER / INDEX
    if not path.is_file():
        return None
    try:
        return decode(dict[str, str], parse_foreign_json(read_bounded(path, RECORD_LIMIT)))
    except (OSError, ValueError) as error:
        raise build_record_error(path, "cannot be read", error) from error


def read_content(result: RunResult, digest: str) -> bytes | None:
    """Return the content of a file of a run; None if it was not stored."""
    path = result.folder / FOLDER / digest
    return path.read_bytes() if path.is_file() else None


def find_edited(result: RunResult, pipeline: Pipeline) -> tuple[str, ...] | None:
    """Return the files of a snapshot that differ from the run's commit; None if that is not known."""
    if not result.commit:
        return None
    with convert_os_errors("read the sources of the run", result.folder / FOLDER):
        kept = {name: read_content(result, digest) for name, digest in (read_index(result) or {}).items()}
    return list_edited(pipeline.root, result.commit, {name: text for name, text in kept.items() if text is not None})


def _list_files(result: RunResult, pipeline: Pipeline) -> dict[str, str]:
    """Return the files that the pipeline was read from, that its parameters name, and that its stages read.

    A file that is named only by stages that did not run has no digest. It must be there when the pipeline is loaded
    again.
    """
    ran = {stage.stage for stage in result.stages}
    skipped = (stage for stage in pipeline.stages if stage.id not in ran)
    files = dict.fromkeys((item.path for stage in skipped for item in stage.references), "")
    files |= result.sources
    for stage in result.stages:
        contents = index_by_subject(stage.inputs, ComponentKind.CONTENT)
        references = pipeline.stage(stage.stage).references
        files |= {item.path: contents[item.parameter] for item in references if item.parameter in contents}
        files |= {path: digest for path, digest in index_by_subject(stage.inputs, ComponentKind.READ).items() if digest}
    return {name: digest for name, digest in files.items() if not Path(name).is_absolute()}
