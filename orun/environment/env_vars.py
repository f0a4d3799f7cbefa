"""Environment variables: what stages are told of them, and others of this process that are set for a while."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

SHARED_KEY, SIGNING_KEY = "ORUN_REMOTE_KEY", "ORUN_REMOTE_SIGNING_KEY"  # what results in a remote store are signed with
SIGNING_KEYS = frozenset({SHARED_KEY, SIGNING_KEY})  # hidden from every stage
OPTIMIZE = "PYTHONOPTIMIZE"  # whether there are asserts
HASH_SEED = "PYTHONHASHSEED"  # how sets iterate
# Beginnings of variables that ONNX Runtime, oneDNN (in OpenVINO) and the libraries of CUDA look up, but for places.
SETTINGS = (
    "ORT_", "ONEDNN_", "DNNL_", "OV_", "CUDNN_", "CUBLAS_", "NVIDIA_TF32_OVERRIDE",
    "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING", "CUDA_DEVICE_ORDER", "CUDA_DEVICE_MAX_CONNECTIONS",
)  # fmt: skip
UNLESS_SET = {HASH_SEED: "0", "TF_CPP_MIN_LOG_LEVEL": "2"}  # sets iterate alike; TensorFlow keeps to warnings
ALWAYS = {"ORT_DISABLE_TELEMETRY": "1"}  # ONNX Runtime keeps to itself


def reproducible_settings() -> list[str]:
    """Return which signing keys are set: a key may let a run push results. Their values are never recorded."""
    return sorted(name for name in SIGNING_KEYS if os.environ.get(name))


def stage_environment() -> dict[str, str]:
    """Return the environment of every stage: this process's, but for signing keys and what is set for stages."""
    variables = {name: value for name, value in os.environ.items() if name not in SIGNING_KEYS}
    return {**UNLESS_SET, **variables, **ALWAYS}


def value_told(name: str) -> str | None:
    """Return the value of a variable as stages find it; None when it is not set there."""
    if name in SIGNING_KEYS:
        return None
    return ALWAYS.get(name) or os.environ.get(name, UNLESS_SET.get(name))


@contextmanager
def variable(name: str, value: str | None) -> Iterator[None]:
    """Within it the variable has that value, here and in processes that start meanwhile; then what it had before.

    Args:
        name: of the variable.
        value: what it is to be; None for not set.
    """
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
