"""Protection of environment variables in pushed records: without the shared key nobody can check a guess at a value.

A plain digest of a value lets every reader try a list of likely values. Pushed records hold digests that are keyed
with `ORUN_REMOTE_KEY` instead. Without that key, results that depend on the value of a variable are not pushed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

from blake3 import blake3

from orun.core.component_kinds import ComponentKind
from orun.core.key_component import index_by_subject
from orun.core.serialization import replace
from orun.environment.env_vars import ALWAYS, SHARED_KEY, UNLESS_SET
from orun.environment.secret_variables import SECRET, Secrets
from orun.fs.observed_state import ABSENT, digest_value
from orun.store import Action

KEYED = "keyed "  # prefix of a keyed digest
SET_BY_ORUN = {**UNLESS_SET, **ALWAYS}  # for every stage


def list_held_back(action: Action) -> Collection[str]:
    """Return the variables because of which a result is not pushed; nothing if there is a shared key."""
    return () if os.environ.get(SHARED_KEY) else _list_private(action)


def key_states(action: Action) -> Action:
    """Return a result as it is pushed, with keyed digests of values."""
    states = action.implicit_deps.environment
    return _with_states(action, {**states, **{name: _key_state(name, states[name]) for name in _list_private(action)}})


def unkey_states(action: Action, secrets: Secrets, present: Mapping[str, str] | None = None) -> Action:
    """Return a result as it is stored: a keyed digest of a variable's present value becomes the plain one.

    Other keyed digests stay, and so match no value.

    Args:
        action: the result.
        secrets: the variables whose values do not count.
        present: the state of each variable on the machine that made the result; that on this machine when None.
    """
    if present is None:
        present = {name: secrets.read_state(name) for name in action.implicit_deps.environment}
    states = action.implicit_deps.environment.items()
    return _with_states(
        action, {name: present[name] if state == _key_state(name, present[name]) else state for name, state in states}
    )


def _list_private(action: Action) -> list[str]:
    """Return the variables whose values may be private.

    Not those that a stage lists under `env`, whose digests are in the key, nor those that orun sets itself.
    """
    listed = index_by_subject(action.components, ComponentKind.VARIABLE)
    return [
        name
        for name, state in action.implicit_deps.environment.items()
        if name not in listed and state not in (ABSENT, SECRET, digest_value(name, SET_BY_ORUN.get(name)))
    ]


def _key_state(name: str, state: str) -> str:
    secret = os.environ.get(SHARED_KEY, "").encode(errors="surrogateescape")
    key = blake3(secret, derive_key_context="orun environment variables of shared results").digest()
    return KEYED + blake3(f"{name}={state}".encode(), key=key).hexdigest()


def _with_states(action: Action, states: dict[str, str]) -> Action:
    return replace(action, implicit_deps=replace(action.implicit_deps, environment=states))
