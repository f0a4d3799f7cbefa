"""Comparison of machine fingerprints, and the name of a machine."""

from __future__ import annotations

from collections.abc import Mapping

Host = Mapping[str, str]

# Hardware facts of a fingerprint, besides those of the GPU. All other facts are versions of software. `machine`, the id
# in a fleet, says where a result was made, and binds nothing.
MACHINE = ("host", "architecture", "cpu", "cpu flags", "cores", "governor", "maximum clock")
HARDWARE = frozenset(
    {*MACHINE, "machine", "system", "gpu name", "gpu compute_cap", "gpu memory.total", "gpu mig.mode.current"}
)


def is_same_machine(first: Host, second: Host) -> bool:
    """Return whether two fingerprints are of the same hardware, whatever its software."""
    return _select_machine(first) == _select_machine(second)


def select_software(host: Host) -> dict[str, str]:
    """Return the software facts of a fingerprint: Python, ONNX Runtime, drivers, libraries, settings."""
    return {name: value for name, value in host.items() if name not in HARDWARE}


def select_hardware(host: Host) -> dict[str, str]:
    """Return the hardware facts of a fingerprint, with the host's name."""
    return {name: value for name, value in host.items() if name in HARDWARE}


def format_machine(host: Host) -> str:
    """Return the name and processor of a machine, for messages: `forge, EPYC 9554P`."""
    return ", ".join(host[name] for name in ("host", "cpu") if name in host) or "unknown"


def name_device(host: Host) -> str:
    """Return the device of a fingerprint: its GPU, else its processor; empty if neither is known."""
    return host.get("gpu name") or host.get("cpu", "")


def _select_machine(host: Host) -> dict[str, str]:
    return {name: value for name, value in host.items() if name in MACHINE or name.startswith("gpu ")}
