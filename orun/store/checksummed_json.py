"""JSON files that hold their own digest, so that damage shows.

    {"seal":"<BLAKE3 of the record's bytes>","record":{...}}

The seal has a fixed place and covers the bytes of the record as they stand: checking it parses nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from orun.core.serialization import from_json, to_json
from orun.errors import StoreError
from orun.fs.digests import LENGTH, digest_bytes
from orun.fs.observed_state import RECORD_LIMIT, read_bounded
from orun.fs.os_errors import quoted, refusals

_HEAD = b'{"seal":"'
_MIDDLE = b'","record":'
_TAIL = b"}\n"
_SEAL = slice(len(_HEAD), len(_HEAD) + LENGTH)
_BODY = slice(_SEAL.stop + len(_MIDDLE), -len(_TAIL))


class BrokenSealError(ValueError):
    """The bytes are not what was written."""


def canonical(data: Any) -> bytes:
    """The one JSON text of plain data: sorted keys, no spaces, ASCII."""
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode("ascii")


def seal(record: Any) -> bytes:
    """The content of a sealed file."""
    body = to_json(record)
    return b"".join((_HEAD, digest_bytes(body).encode("ascii"), _MIDDLE, body, _TAIL))


def unseal(content: bytes) -> Any:
    """The record of a sealed file.

    Raises:
        BrokenSealError: when a byte of it is not as it was written.
        ValueError: when it is no record that can be read, whatever its seal says.
    """
    body = content[_BODY]
    digest = digest_bytes(body).encode("ascii")
    if content != b"".join((_HEAD, digest, _MIDDLE, body, _TAIL)):
        raise BrokenSealError("the record is not what was written")
    return from_json(body)


def read_record(path: Path) -> Any:
    """The plain data of a sealed file, such as the record of a run.

    Raises:
        StoreError: when it is not there, cannot be read, or is not what was written.
    """
    with refusals(f"read {path}", path):
        content = read_bounded(path, RECORD_LIMIT)
    try:
        return unseal(content)
    except ValueError as error:
        raise useless(path, "was damaged", error) from error


def useless(path: Path, what: str, error: Exception) -> StoreError:
    """The error of a record that cannot be used: what is the matter with it, and why."""
    return StoreError(
        f"the record {path} {what}",
        why=str(error),
        hint=f"Remove it; results do not depend on it: rm {quoted(path)}",
    )
