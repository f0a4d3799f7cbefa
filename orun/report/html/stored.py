"""Files of a run's stages in its store: manifests, samples of latencies, models and their roles."""

from __future__ import annotations

import array
import ast
import hashlib
import io
import zipfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from orun.core.run_record import StageResult
from orun.errors import OrunError
from orun.fs.bounded_reads import RECORD_LIMIT
from orun.report.html.onnx_outline import Outline, read_outlines
from orun.stages.contract import MODEL
from orun.stages.release._manifest import MANIFEST

MOST = 4  # models
SAMPLES = "samples.npz"
SEARCH = "quantize/tune"  # kind whose model tells of other candidates
HASHED = 4 << 30  # bytes of a file, up to which its SHA-256 is in the report
# The file that the page shows of the artifact of a kind.
FILES = {
    "measure/latency": SAMPLES,
    "measure/web": SAMPLES,
    "measure/profile": "profile.json",
    "quantize/debug": "tensors.json",
    "release/bundle": MANIFEST,
}
# Kinds that hold a model which another stage made.
COPIES = ("release/bundle", "release/publish", "release/triton", "release/web")
NPY = b"\x93NUMPY"  # begins an array in a file, https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html


@dataclass(frozen=True)
class StoredModel:
    """Model in the store: its outline, and the stored file for each path in it."""

    outline: Outline
    files: Mapping[str, Path]


@dataclass(frozen=True)
class Stored:
    """Results of a run as far as its page shows them and the store still has them.

    Attributes:
        contents: the file of each stage's artifact that `FILES` names for its kind.
        roles: role of each stage whose model is shown: `released`, `not released`, `result` or `original`.
        models: these models and those of searches.
    """

    contents: Mapping[str, bytes] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, StoredModel] = field(default_factory=dict)


def read_stored(root: Path, stages: Sequence[StageResult]) -> Stored:
    """Return what the store in a folder has of the results of stages."""
    from orun.store import Store

    contents: dict[str, bytes] = {}
    try:
        with Store.open(root, read_only=True) as store:
            trees = {stage.stage: store.read_tree(stage.tree) for stage in stages if stage.tree}
            files = {name: {entry.path: entry for entry in tree.entries} for name, tree in trees.items() if tree}
            for stage in stages:
                entry = files.get(stage.stage, {}).get(FILES.get(stage.uses, ""))
                if entry and entry.size <= RECORD_LIMIT:
                    with suppress(OrunError):  # it is damaged or gone
                        contents[stage.stage] = store.read(entry.digest)
            roles = _find_roles(stages, {name for name, entries in files.items() if MODEL in entries})
            searches = [stage.stage for stage in stages if stage.uses == SEARCH]
            objects = store.parts.objects
            paths = {
                name: {path: Path(objects.locate(entry.digest)) for path, entry in files[name].items()}
                for name in dict.fromkeys((*roles, *searches))
                if MODEL in files.get(name, {})
                and not any(objects.find_problem(entry.digest, quarantine=False) for entry in files[name].values())
            }
        outlines = zip(paths, read_outlines([paths[name][MODEL] for name in paths]), strict=True)
        models = {name: StoredModel(outline, paths[name]) for name, outline in outlines if outline}
        return Stored(contents, roles, models)
    except (OrunError, OSError):  # the store is damaged or gone: the report does without it
        return Stored(contents)


def _find_roles(stages: Sequence[StageResult], with_model: Collection[str]) -> dict[str, str]:
    makers = {stage.stage: stage for stage in stages if stage.stage in with_model and stage.uses not in COPIES}
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
