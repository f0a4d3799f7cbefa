"""Where a model must run: providers, session options, and what to do when a provider is not there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Fallback = Literal["forbid-cpu", "warn", "allow"]


@dataclass(frozen=True)
class Provider:
    """An execution provider of ONNX Runtime with its options."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Target:
    """A resolved entry of `targets`.

    Attributes:
        name: its name in the file.
        providers: in order of preference.
        session: session options by their names in the file (`intra_op_num_threads`, ...), plain values.
        fallback: what to do when a node lands on the CPU that was not meant for it.
        missing: `error`, or `skip` the stages that use it, when a provider is not on this machine.
    """

    name: str
    providers: tuple[Provider, ...] = (Provider("CPUExecutionProvider"),)
    session: Mapping[str, Any] = field(default_factory=dict)
    fallback: Fallback = "warn"
    missing: Literal["error", "skip"] = "error"
