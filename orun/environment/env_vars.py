"""Environment variables of stages, and variables of this process that are set temporarily."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

SHARED_KEY, SIGNING_KEY = "ORUN_REMOTE_KEY", "ORUN_REMOTE_SIGNING_KEY"  # they sign results in a remote store
SIGNING_KEYS = frozenset({SHARED_KEY, SIGNING_KEY})
AGENT_TOKEN = "ORUN_AGENT_TOKEN"  # noqa: S105 - variable of a driver, with the token of the agents that it uses over TCP
HEAD_TOKEN = "RAY_AUTH_TOKEN"  # noqa: S105 - variable with the token of the head of a cluster
HIDDEN = SIGNING_KEYS | {AGENT_TOKEN, HEAD_TOKEN}  # secrets of orun's own that no stage sees
NEIGHBOURS = "ORUN_BESIDE"  # variable of an agent: what always runs beside its stages, such as `ray 2.60.0`
OPTIMIZE = "PYTHONOPTIMIZE"  # switches assertions off
HASH_SEED = "PYTHONHASHSEED"  # fixes the order of sets
# Prefixes of the variables that ONNX Runtime, oneDNN (in OpenVINO) and the CUDA libraries read, except folders.
SETTINGS = (
    "ORT_", "ONEDNN_", "DNNL_", "OV_", "CUDNN_", "CUBLAS_", "NVIDIA_TF32_OVERRIDE",
    "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING", "CUDA_DEVICE_ORDER", "CUDA_DEVICE_MAX_CONNECTIONS",
)  # fmt: skip
UNLESS_SET = {HASH_SEED: "0", "TF_CPP_MIN_LOG_LEVEL": "2"}  # fixed order of sets; TensorFlow logs warnings only
ALWAYS = {"ORT_DISABLE_TELEMETRY": "1"}


def list_signing_keys() -> list[str]:
    """Return the names of the signing keys that are set: with a key, a run may push. Values are never recorded."""
    return sorted(name for name in SIGNING_KEYS if os.environ.get(name))


def build_stage_environment() -> dict[str, str]:
    """Return the environment of stages: this process's, without orun's own secrets and with orun's settings."""
    variables = {name: value for name, value in os.environ.items() if name not in HIDDEN}
    return {**UNLESS_SET, **variables, **ALWAYS}


def read_stage_value(name: str) -> str | None:
    """Return the value of a variable in the environment of stages; None when it is not set there."""
    if name in HIDDEN:
        return None
    return ALWAYS.get(name) or os.environ.get(name, UNLESS_SET.get(name))


@contextmanager
def set_variable(name: str, value: str | None) -> Iterator[None]:
    """Set a variable in the block, or unset it (None), for this process and those that it starts; then restore it."""
    before = os.environ.get(name)
    _set(name, value)
    try:
        yield
    finally:
        _set(name, before)


def _set(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
