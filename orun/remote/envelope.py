"""Envelope of a record in a remote: a line with signatures, then the record itself.

    {"format":1,"signatures":{"ed25519":"...","hmac-sha256":"..."}}
    {...}

The signatures cover the bytes of the second line. Nothing of that line is parsed before a signature was verified.
"""

from __future__ import annotations

import json
from typing import Any

from orun.remote.trust import Keyring
from orun.store.checksummed_json import encode_canonical

FORMAT = 1


class RefusedError(Exception):
    """Content of a remote that is not accepted; the message is a sentence that starts with "it"."""


def sign(record: bytes, keys: Keyring) -> bytes:
    """Put a record into an envelope."""
    return encode_canonical({"format": FORMAT, "signatures": keys.sign(record)}) + b"\n" + record


def open_envelope(data: bytes, keys: Keyring) -> bytes:
    """Return the record in an envelope.

    Raises:
        RefusedError: if it is not an envelope, has another format, or lacks the signature that the keys demand.
    """
    head, _, record = data.partition(b"\n")
    try:
        header: Any = json.loads(head)
        found_format, signatures = header["format"], header["signatures"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise RefusedError("it is not a record of orun") from None
    if found_format != FORMAT:
        raise RefusedError(f"it has format {found_format!r}, and this version of orun reads {FORMAT}")
    if not isinstance(signatures, dict) or not all(isinstance(value, str) for value in signatures.values()):
        raise RefusedError("it is not a record of orun")
    if not record.isascii():
        raise RefusedError("it is not a record of orun")
    if why := keys.verify(record, signatures):
        raise RefusedError(why)
    return record
