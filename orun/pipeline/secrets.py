"""Secrets: environment variables that a file lists as private, with the check that no key contains them."""

from __future__ import annotations

from collections.abc import Iterable

from orun.environment.env_vars import HASH_SEED, HIDDEN, OPTIMIZE, SETTINGS
from orun.environment.secret_variables import CREDENTIALS
from orun.pipeline.instances import Instance
from orun.pipeline.nodes import Map, Scalar
from orun.pipeline.problems import Problems

IN_KEYS = (OPTIMIZE, HASH_SEED, "PYTHONPATH")  # variables in the keys of custom stages


def read_secrets(tree: Map, instances: Iterable[Instance], problems: Problems) -> tuple[str, ...]:
    """Return the names under `secrets`; note names that are also under `env`, or that cannot be secrets."""
    declared = {item.text: item for item in tree.list_items("secrets") if isinstance(item, Scalar)}
    for name, item in declared.items():
        if name in IN_KEYS or name.startswith(SETTINGS):
            problems.add(
                item.span,
                f"{name!r} cannot be a secret: orun has it in keys, as results depend on it",
                expected="the name of a variable that holds a password, token or key",
            )
    own = HIDDEN | CREDENTIALS
    for item in (
        item for instance in instances for item in instance.node.list_items("env") if isinstance(item, Scalar)
    ):
        if item.text in own:
            problems.add(
                item.span,
                f"{item.text!r} is a secret of orun's own, and no key holds a secret",
                expected="the name of a variable that the stage's result depends on",
            )
        elif item.text in declared:
            problems.add(
                item.span,
                f"{item.text!r} is listed under `secrets`, and no key holds a secret",
                expected=f"{item.text!r} under `secrets` or under `env`, not both",
            )
    return tuple(declared)
