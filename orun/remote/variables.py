"""Environment variables in records that travel: whoever lacks the shared key cannot check a guess at a value.

A digest of a value lets everybody who reads it try a list of likely values. In a remote store its place is taken by a
digest that is keyed with `ORUN_REMOTE_KEY`. A result that depends on the value of a variable is not pushed without it.
"""

from __future__ import annotations

import os
from collections.abc import Collection

from blake3 import blake3

from orun.core.serialization import replace
from orun.environment.env_vars import ALWAYS, SHARED_KEY, UNLESS_SET
from orun.environment.secret_variables import SECRET, Secrets
from orun.fs.observed_state import ABSENT, value_digest
from orun.store import Action

KEYED = "keyed "  # begins a digest that only the shared key can make
SET = {**UNLESS_SET, **ALWAYS}  # by orun, for every stage


def held_back(action: Action) -> Collection[str]:
    """Return the variables for whose values a result stays here as long as there is no shared key."""
    return () if os.environ.get(SHARED_KEY) else _private(action)


def keyed(action: Action) -> Action:
    """Return a result as it is pushed: digests of values are keyed."""
    states = action.discovered.environment
    return _with_states(action, {**states, **{name: _keyed(name, states[name]) for name in _private(action)}})


def unkeyed(action: Action, secrets: Secrets) -> Action:
    """Return a result as it is kept here: each keyed digest that is of a variable's value here is the plain one.

    All others stay as they are, and so agree with no value.
    """
    here = {name: secrets.state_now(name) for name in action.discovered.environment}
    states = action.discovered.environment.items()
    return _with_states(
        action, {name: here[name] if state == _keyed(name, here[name]) else state for name, state in states}
    )


def _private(action: Action) -> list[str]:
    """Return the variables whose digests tell of a value that not everybody knows.

    What a stage lists under `env` is none of them: its digest is in the key. Nor are variables that orun has set.
    """
    listed = {name for name in action.discovered.environment if f"environment {name}" in action.parts}
    return [
        name
        for name, state in action.discovered.environment.items()
        if name not in listed and state not in (ABSENT, SECRET, value_digest(name, SET.get(name)))
    ]


def _keyed(name: str, state: str) -> str:
    secret = os.environ.get(SHARED_KEY, "").encode(errors="surrogateescape")
    key = blake3(secret, derive_key_context="orun environment variables of shared results").digest()
    return KEYED + blake3(f"{name}={state}".encode(), key=key).hexdigest()


def _with_states(action: Action, states: dict[str, str]) -> Action:
    return replace(action, discovered=replace(action.discovered, environment=states))
