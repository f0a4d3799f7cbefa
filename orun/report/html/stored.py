"""Files of a run's stages in its store: manifests, samples of latencies, models and their roles."""

from __future__ import annotations

import array
import ast
import hashlib
import io
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orun.core.run_record import StageResult
from orun.errors import OrunError
from orun.fs.bounded_reads import RECORD_LIMIT
from orun.report.html.onnx_outline import Outline, read_outlines
from orun.stages.contract import MODEL

MOST = 4  # models
SEARCH = "quantize/tune"  # kind whose model tells of other candidates
HASHED = 4 << 30  # bytes of a file, up to which its SHA-256 is in the report
# Kinds that hold a model which another stage made.
COPIES = ("release/bundle", "release/publish", "release/triton", "release/web")
NPY = b"\x93NUMPY"  # begins an array in a file, https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html


def read_stored(store: Path, stage: StageResult, name: str) -> bytes | None:
    """Return a file of a stage's artifact; None if it has none of that name, or the store has lost it."""
    from orun.store import Store

    if not stage.tree:
        return None
    try:
        with Store.open(store, read_only=True) as opened:
            tree = opened.read_tree(stage.tree)
            entry = next((entry for entry in tree.entries if entry.path == name), None) if tree else None
            return opened.read(entry.digest) if entry and entry.size <= RECORD_LIMIT else None
    except OrunError:  # the store is damaged or gone: the report does without the file
        return None


@dataclass(frozen=True)
class StoredModel:
    """Model in the store: its outline, and the stored file for each path in it."""

    outline: Outline
    files: Mapping[str, Path]


def read_models(store: Path, stages: Iterable[StageResult]) -> dict[str, StoredModel]:
    """Return the models of stages by the ids of the stages; those that the store has lost are left out."""
    from orun.store import Store

    files: dict[str, dict[str, Path]] = {}
    try:
        with Store.open(store, read_only=True) as opened:
            objects = opened.parts.objects
            for stage in stages:
                tree = opened.read_tree(stage.tree) if stage.tree else None
                digests = {entry.path: entry.digest for entry in tree.entries} if tree else {}
                is_intact = not any(objects.find_problem(digest, quarantine=False) for digest in digests.values())
                if MODEL in digests and is_intact:
                    files[stage.stage] = {name: Path(objects.locate(digest)) for name, digest in digests.items()}
        outlines = read_outlines([paths[MODEL] for paths in files.values()])
        return {
            stage: StoredModel(outline, paths)
            for (stage, paths), outline in zip(files.items(), outlines, strict=True)
            if outline
        }
    except (OrunError, OSError):  # the store is damaged or gone: the report does without the models
        return {}


def find_roles(store: Path, stages: Sequence[StageResult]) -> dict[str, str]:
    """Return the stages whose models the page shows, each as `released`, `not released`, `result` or `original`."""
    makers = {stage.stage: stage for stage in _list_model_makers(store, stages)}
    used = {name for stage in makers.values() for name in stage.needs}
    releases = [stage for stage in stages if stage.uses.startswith("release/") and stage.needs[:1]]
    released = {stage.needs[0] for stage in releases if stage.tree}  # the primary input of a release that was made
    roles = {stage.needs[0]: "released" if stage.needs[0] in released else "not released" for stage in releases}
    roles = roles if makers.keys() & roles.keys() else {name: "result" for name in makers if name not in used}
    roles = {name: roles[name] for name in makers if name in roles}
    for stage in makers.values():
        if not makers.keys() & set(stage.needs):
            roles.setdefault(stage.stage, "original")
    return dict(list(roles.items())[:MOST])


def _list_model_makers(store: Path, stages: Iterable[StageResult]) -> list[StageResult]:
    """Return the stages whose artifact is a model; a bundle, which holds a copy, is none."""
    from orun.store import Store

    kinds = [stage for stage in stages if stage.tree and stage.uses not in COPIES]
    try:
        with Store.open(store, read_only=True) as opened:
            trees = [(stage, opened.read_tree(stage.tree)) for stage in kinds]
    except OrunError:
        return []
    return [stage for stage, tree in trees if tree and any(entry.path == MODEL for entry in tree.entries)]


def read_sha256(path: Path) -> str:
    """Return the digest of a file; empty for a file that is too large to be read for a report."""
    if path.stat().st_size > HASHED:
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_samples(content: bytes) -> Mapping[str, array.array[float]]:
    """Return the float64 vectors of an .npz file by name, without numpy, which the process of a run does not import.

    Raises:
        ValueError: if the content is no such file.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            vectors = {name.removesuffix(".npy"): _parse_vector(archive.read(name)) for name in archive.namelist()}
    except (zipfile.BadZipFile, SyntaxError, KeyError, TypeError) as error:
        raise ValueError(str(error)) from error
    return {name: vector for name, vector in vectors.items() if vector is not None}


def _parse_vector(content: bytes) -> array.array[float] | None:
    """Return a vector of float64; None for an array of another kind."""
    if not content.startswith(NPY + b"\x01"):
        raise ValueError("this is no array of NumPy's format 1")
    start = 10 + int.from_bytes(content[8:10], "little")
    header = ast.literal_eval(content[10:start].decode("latin-1"))
    if header["descr"] != "<f8" or len(header["shape"]) != 1:
        return None
    return array.array("d", content[start:])
