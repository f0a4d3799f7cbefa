"""Secrets among the environment variables, and the text that records hold instead of their values."""

from __future__ import annotations

import re

from orun.core.serialization import Record
from orun.environment.env_vars import HIDDEN, read_stage_value
from orun.fs.observed_state import digest_value

# Credentials of remote stores.
CREDENTIALS = frozenset(
    {
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_BEARER_TOKEN",
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_SAS_TOKEN",
    }
)
LOOKS_SECRET = re.compile(
    r"(.*_)?(TOKEN|KEY|SECRET|APIKEY|CREDENTIALS?|PASSPHRASE|PASSWD)|.*PASSWORD.*|.*_ACCESS_KEY_ID", re.IGNORECASE
)
SECRET = "secret"  # noqa: S105 - replaces the digest of a value in records


class Secrets(Record, frozen=True):
    """Environment variables whose values stay out of keys, records, logs and reports."""

    declared: frozenset[str] = frozenset()  # names that the pipeline file lists under `secrets`
    settings: frozenset[str] = frozenset()  # names that a stage lists under `env`: no secrets, whatever they look like

    def __contains__(self, name: str) -> bool:
        return name in self.declared or name in HIDDEN or name in CREDENTIALS or self.is_guess(name)

    def is_guess(self, name: str) -> bool:
        """Return whether a variable is a secret only because its name looks like one."""
        known = self.declared | self.settings | HIDDEN | CREDENTIALS
        return name not in known and LOOKS_SECRET.fullmatch(name) is not None

    def compute_state(self, name: str, value: str | None) -> str:
        """Return a variable's state for records: `SECRET`, the digest of its value, or `ABSENT`."""
        return SECRET if name in self else digest_value(name, value)

    def read_state(self, name: str) -> str:
        """Return the state of a variable in the environment of stages."""
        return self.compute_state(name, read_stage_value(name))
