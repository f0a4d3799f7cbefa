"""JSON files that hold their own digest, so that damage is noticed.

    {"seal":"<BLAKE3 of the record's bytes>","record":{...}}

The digest has a fixed place and covers the bytes of the record: checking it parses nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from orun.core.serialization import from_json, to_json
from orun.errors import StoreError
from orun.fs.bounded_reads import RECORD_LIMIT, read_bounded
from orun.fs.digests import LENGTH, digest_bytes
from orun.fs.os_errors import convert_os_errors, quote

_HEAD = b'{"seal":"'
_MIDDLE = b'","record":'
_TAIL = b"}\n"
_DIGEST = slice(len(_HEAD), len(_HEAD) + LENGTH)
_BODY = slice(_DIGEST.stop + len(_MIDDLE), -len(_TAIL))


class ChecksumError(ValueError):
    """The bytes are not what was written."""


def encode_canonical(data: Any) -> bytes:
    """Return the canonical JSON text of plain data: sorted keys, no spaces, ASCII."""
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode("ascii")


def encode_checksummed(record: Any) -> bytes:
    """Return the content of a checksummed file."""
    body = to_json(record)
    return b"".join((_HEAD, digest_bytes(body).encode("ascii"), _MIDDLE, body, _TAIL))


def decode_checksummed(content: bytes) -> Any:
    """Return the record of a checksummed file.

    Raises:
        ChecksumError: if a byte of it has changed.
        ValueError: if it is not valid JSON although its digest fits.
    """
    body = content[_BODY]
    digest = digest_bytes(body).encode("ascii")
    if content != b"".join((_HEAD, digest, _MIDDLE, body, _TAIL)):
        raise ChecksumError("the record is not what was written")
    return from_json(body)


def read_record(path: Path) -> Any:
    """Read the record of a checksummed file, such as that of a run.

    Raises:
        StoreError: if it is missing, cannot be read, or was damaged.
    """
    with convert_os_errors(f"read {path}", path):
        content = read_bounded(path, RECORD_LIMIT)
    try:
        return decode_checksummed(content)
    except ValueError as error:
        raise build_record_error(path, "was damaged", error) from error


def build_record_error(path: Path, problem: str, error: Exception) -> StoreError:
    """Return the error for a record that cannot be used."""
    return StoreError(
        f"the record {path} {problem}",
        why=str(error),
        hint=f"Remove it; results do not depend on it: rm {quote(path)}",
    )
