"""Check of a bundle, with the digests that identify it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from orun.core.serialization import Record, field, parse_foreign_json
from orun.fs.bounded_reads import RECORD_LIMIT, read_bounded
from orun.stages.release._manifest import MANIFEST, list_requirements, verify_bundle


class BundleCheck(Record, frozen=True):
    """Result of the check of a bundle.

    Attributes:
        bundle: its folder.
        problems: every difference from its manifest, a sentence each.
        sha256: SHA-256 of each file by its path, the manifest first; empty if there is a problem. The digest of the
            manifest identifies the bundle, because the manifest lists all other files.
        requires: packages that sessions of its models need beside ONNX Runtime, with their versions where known.
    """

    bundle: Path
    problems: tuple[str, ...] = ()
    sha256: Mapping[str, str] = field(default_factory=dict)
    requires: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"BundleCheck({str(self.bundle)!r}, ok={self.ok}, files={len(self.sha256)}, problems={self.problems})"

    @property
    def ok(self) -> bool:
        """Whether every file is what the manifest says."""
        return not self.problems


def check_bundle(folder: Path) -> BundleCheck:
    """Check a bundle: every file is read."""
    if problems := verify_bundle(folder):
        return BundleCheck(folder, tuple(problems))
    content = read_bounded(folder / MANIFEST, RECORD_LIMIT)
    manifest = parse_foreign_json(content)
    files = {entry["path"]: entry["sha256"] for entry in manifest["files"]}
    digests = {MANIFEST: hashlib.sha256(content).hexdigest(), **files}
    return BundleCheck(folder, sha256=digests, requires=list_requirements(manifest))
