"""Publisher to a folder or bucket, which takes a release file by file.

An unfinished release has no manifest, so that nobody takes it for a release. It has the note `PUBLISHING` instead,
which lists the files that may be there. The next publisher removes those that do not belong to its own release.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from orun.core.serialization import parse_foreign_json
from orun.errors import UsageError
from orun.stages.release._destination import Publisher, parse_digest, report_refusal, require_package
from orun.stages.release._folder import Folder
from orun.stages.release._manifest import MANIFEST, PUBLISHING

if TYPE_CHECKING:
    from orun.store.object_storage import Bucket as RemoteBucket

LARGEST = 64 << 20  # bytes of a manifest or note


class Bucket(Publisher):
    """Folder or bucket as a destination. Files of the replaced release that the new one lacks are removed."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._bucket: Folder | RemoteBucket
        if url.startswith("file://"):
            self._errors: tuple[type[Exception], ...] = (OSError, ValueError)
            self._denied: type[Exception] = PermissionError
            self._bucket = Folder(Path(unquote(urlsplit(url).path)))
            return
        with require_package("obstore"):
            from orun.store import object_storage
        self._errors = (object_storage.DeniedError, object_storage.UnreachableError, ValueError)
        self._denied = object_storage.DeniedError
        with report_refusal(url, *self._errors):
            self._bucket = object_storage.Bucket(url)

    def read_manifest_digest(self) -> str:
        """See `Publisher`."""
        with report_refusal(self._url, *self._errors):
            return parse_digest(self._bucket.read(MANIFEST, LARGEST))

    def read_unfinished_digest(self) -> str:
        """See `Publisher`."""
        with report_refusal(self._url, *self._errors):
            return parse_digest(self._bucket.read(PUBLISHING, LARGEST))

    def list_missing_files(self, bundle: Path, names: Sequence[str]) -> list[str]:
        """See `Publisher`; sizes are compared, not contents."""
        with report_refusal(self._url, *self._errors):
            return [name for name in names if self._bucket.read_size(name) != (bundle / name).stat().st_size]

    def publish(self, bundle: Path, names: Sequence[str]) -> None:
        """See `Publisher`."""
        *files, manifest = names
        digest = parse_digest((bundle / MANIFEST).read_bytes())
        with report_refusal(self._url, *self._errors):
            before, begun = (self._bucket.read(name, LARGEST) for name in (MANIFEST, PUBLISHING))
            old = _read_listed(before) | _read_listed(begun)
            note = _build_note(digest, {*names, *old})
            self._begin(note, begun)
            for name in files:
                self._require_mine(note)
                self._upload(bundle, name)
            for name in sorted(old - set(names)):
                self._bucket.remove(name)
            if begun is not None and parse_digest(begun) != digest:  # the other publisher may still have been writing
                self._require(all(self._holds(bundle, name) for name in files))
            self._require_mine(note)
            self._upload(bundle, manifest)
            self._end(note)

    def read_reference(self) -> str:
        """See `Publisher`."""
        return ""

    def _begin(self, note: bytes, begun: bytes | None) -> None:
        """Write the note, in place of the one in `begun` if there is one, and remove the manifest."""
        if not self._bucket.put_if_absent(PUBLISHING, note):
            self._require(begun is not None)
            with tempfile.NamedTemporaryFile() as file:
                file.write(note)
                file.flush()
                self._bucket.upload(PUBLISHING, file.name, len(note))
        if self._bucket.read_size(MANIFEST) is not None:
            self._bucket.remove(MANIFEST)

    def _end(self, note: bytes) -> None:
        try:
            self._require_mine(note)
        except UsageError:
            self._bucket.remove(MANIFEST)
            raise
        try:
            self._bucket.remove(PUBLISHING)
        except self._denied:  # the bucket allows no removal; a note beside a manifest is ignored
            return

    def _holds(self, bundle: Path, name: str) -> bool:
        """Return whether the destination still holds the file as this process uploaded it."""
        with (bundle / name).open("rb") as file, tempfile.TemporaryFile() as copy:
            try:
                exists = self._bucket.copy(name, copy.fileno(), os.fstat(file.fileno()).st_size)
            except ValueError:  # it has another size
                return False
            expected, actual = (hashlib.file_digest(stream, "sha256").digest() for stream in (file, copy))
            return exists and expected == actual

    def _upload(self, bundle: Path, name: str) -> None:
        path = bundle / name
        self._bucket.upload(name, str(path), path.stat().st_size)

    def _require_mine(self, note: bytes) -> None:
        self._require(self._bucket.read(PUBLISHING, LARGEST) == note)

    def _require(self, alone: bool) -> None:
        if not alone:
            raise UsageError(
                f"another process publishes to {self._url} at the same time",
                why="the files copied by this stage have no manifest, so they are no release",
                hint="publish again when the other process has ended",
            )


def _build_note(digest: str, names: Iterable[str]) -> bytes:
    """Return a note with the digest of the release, the files that may be there, and the publishing process."""
    note = {
        "digest": digest,
        "files": [{"path": name} for name in sorted({*names} - {MANIFEST})],
        "by": f"process {os.getpid()} of {platform.node()}, {os.urandom(8).hex()}",
    }
    return json.dumps(note, indent=1).encode()


def _read_listed(content: bytes | None) -> set[str]:
    """Return the files that a manifest or note lists, without paths that lead out of the destination."""
    try:
        entries: list[dict[str, Any]] = parse_foreign_json(content or b"{}").get("files", ())
        names = [PurePosixPath(entry["path"]) for entry in entries]
    except (ValueError, AttributeError, KeyError, TypeError):  # not written by orun, so no file may be removed
        return set()
    return {str(name) for name in names if name.parts and not name.is_absolute() and ".." not in name.parts}
