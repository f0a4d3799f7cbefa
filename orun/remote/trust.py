"""Signatures of shared results: a shared secret (HMAC-SHA-256) or a key pair (Ed25519).

Secrets come from the environment and are never stored or logged.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

from orun.core.serialization import Record
from orun.environment.env_vars import SHARED_KEY, SIGNING_KEY
from orun.errors import UsageError
from orun.fs.bounded_reads import TEXT_LIMIT, read_bounded

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

SHORTEST = 16  # characters of a shared secret
HMAC, ED25519 = "hmac-sha256", "ed25519"
_PEM = "-----BEGIN"
_MARK = b"orun remote record 1\n"  # signed with each record: a signature made for another purpose is not valid here


class Keyring(Record, frozen=True):
    """Keys of this machine."""

    secret: bytes = b""  # shared by all writers and readers; empty if there is none
    private: Ed25519PrivateKey | None = None  # signs; None on machines that only read
    trusted: tuple[Ed25519PublicKey, ...] = ()  # accepted signatures are by one of these

    @property
    def demanding(self) -> bool:
        """Whether a record must be signed to be accepted."""
        return bool(self.secret or self.trusted)

    def sign(self, text: bytes) -> dict[str, str]:
        """Sign a text with each key that can; return hexadecimal signatures by method."""
        signatures: dict[str, str] = {}
        if self.secret:
            signatures[HMAC] = hmac.new(self.secret, _MARK + text, sha256).hexdigest()
        if self.private:
            signatures[ED25519] = self.private.sign(_MARK + text).hex()
        return signatures

    def verify(self, text: bytes, signatures: Mapping[str, str]) -> str:
        """Return why no signature is valid for a text; empty if one is, or if none is demanded."""
        if not self.demanding:
            return ""
        if not signatures:
            return "it is not signed"
        own = hmac.new(self.secret, _MARK + text, sha256).hexdigest() if self.secret else ""
        if own and hmac.compare_digest(own.encode(), signatures.get(HMAC, "").encode(errors="replace")):
            return ""
        if self._is_signed(text, signatures.get(ED25519, "")):
            return ""
        return "its signature is not by a key that is trusted here"

    def _is_signed(self, text: bytes, signature: str) -> bool:
        if not (self.trusted and signature):
            return False
        from cryptography.exceptions import InvalidSignature

        for key in self.trusted:
            try:
                key.verify(bytes.fromhex(signature), _MARK + text)
            except (InvalidSignature, ValueError):
                continue
            return True
        return False


def read_keyring(trusted: Sequence[str], environment: Mapping[str, str] = os.environ) -> Keyring:
    """Return the keys of the environment, with trusted public keys given as PEM texts.

    Raises:
        UsageError: if one of them is not a usable key.
    """
    secret = environment.get(SHARED_KEY, "")
    if secret and len(secret) < SHORTEST:
        raise UsageError(
            f"{SHARED_KEY} is too short to keep anybody out: it needs {SHORTEST} characters",
            hint=f"export {SHARED_KEY}=$(openssl rand -hex 32)",
        )
    private = environment.get(SIGNING_KEY, "")
    return Keyring(
        secret=secret.encode(errors="surrogateescape"),
        private=_read_private_key(private) if private else None,
        trusted=tuple(_parse_public_key(text) for text in trusted),
    )


def split_public_keys(text: str) -> list[str]:
    """Return each PEM block of a text."""
    return [_PEM + block for block in text.split(_PEM)[1:]]


def _read_private_key(value: str) -> Ed25519PrivateKey:
    """Return the key in a PEM text, or in the file of that path."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    hint = "openssl genpkey -algorithm ed25519 -out orun-signing.pem"
    try:
        text = value if value.startswith(_PEM) else read_bounded(value, TEXT_LIMIT).decode("ascii")
    except (OSError, ValueError):  # not shown: the value may be a secret
        raise UsageError(f"{SIGNING_KEY} is neither a key in PEM nor a file that holds one", hint=hint) from None
    try:
        key = load_pem_private_key(text.encode("ascii"), password=None)
    except (ValueError, TypeError):
        raise UsageError(f"{SIGNING_KEY} does not hold a private key in PEM without a password", hint=hint) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError(f"{SIGNING_KEY} is not an Ed25519 key", hint=hint)
    return key


def _parse_public_key(text: str) -> Ed25519PublicKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    hint = "openssl pkey -in orun-signing.pem -pubout"
    try:
        key = load_pem_public_key(text.encode("ascii"))
    except (ValueError, UnsupportedAlgorithm):
        raise UsageError("a trusted key of the remote is not a public key in PEM", why=text, hint=hint) from None
    if not isinstance(key, Ed25519PublicKey):
        raise UsageError("a trusted key of the remote is not an Ed25519 key", why=text, hint=hint)
    return key
