"""A record as it travels: a line with signatures, then the record itself.

    {"format":1,"signatures":{"ed25519":"...","hmac-sha256":"..."}}
    {...}

The signatures cover the bytes of the second line as they stand, and nothing of it is parsed before one was found good.
"""

from __future__ import annotations

import json
from typing import Any

from orun.remote.trust import Keyring
from orun.store.checksummed_json import canonical

FORMAT = 1


class RefusedError(Exception):
    """Something of the remote is not to be believed; the message is a sentence without its subject's name."""


def seal(record: bytes, keys: Keyring) -> bytes:
    """The envelope of a record."""
    return canonical({"format": FORMAT, "signatures": keys.sign(record)}) + b"\n" + record


def unseal(data: bytes, keys: Keyring) -> bytes:
    """The record in an envelope.

    Raises:
        RefusedError: when it is none, of another format, or not signed by whom it must be.
    """
    head, _, record = data.partition(b"\n")
    try:
        header: Any = json.loads(head)
        found, signatures = header["format"], header["signatures"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise RefusedError("it is not a record of orun") from None
    if found != FORMAT:
        raise RefusedError(f"it has format {found!r}, and this version of orun reads {FORMAT}")
    if not isinstance(signatures, dict) or not all(isinstance(value, str) for value in signatures.values()):
        raise RefusedError("it is not a record of orun")
    if not record.isascii():
        raise RefusedError("it is not a record of orun")
    if why := keys.verify(record, signatures):
        raise RefusedError(why)
    return record
