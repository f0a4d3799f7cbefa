"""Kinds that have the machine to themselves."""

from __future__ import annotations

from pathlib import Path

from orun.stages import registry


def test_kinds_that_take_times_have_the_machine_to_themselves() -> None:
    exclusive = {name for name in registry.BUILTIN if registry.find(name, Path()).spec.exclusive}
    assert exclusive == {
        "measure/latency", "measure/load", "measure/profile", "measure/startup", "measure/web",
        "optimize/session", "quantize/tune",
    }  # fmt: skip
