"""Targets that `orun init` can write: an execution provider with the ones behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from orun.core.serialization import Record
from orun.core.targets import GPU_PROVIDERS
from orun.errors import UsageError
from orun.providers.registry import PROVIDERS
from orun.text.suggestions import format_choices, suggest

SUFFIX = "ExecutionProvider"
CPU = "cpu"
ALIASES = {"gpu": "cuda", "trt": "tensorrt", "directml": "dml"}
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "TensorrtExecutionProvider": {"trt_fp16_enable": True},
    "OpenVINOExecutionProvider": {"device_type": "CPU"},
}

Precision = Literal["integers", "static integers", "float16"]


class TargetText(Record, frozen=True):
    """A target of the file that is being written."""

    name: str
    providers: tuple[Any, ...]  # in order of preference, as YAML values
    precision: Precision  # to which models are reduced for it

    @property
    def is_cpu(self) -> bool:
        """Whether it is ONNX Runtime's own kernels on the processor."""
        return self.name == CPU


def list_target_names() -> dict[str, str]:
    """Return the short name of each provider."""
    return {provider.removesuffix(SUFFIX).lower(): provider for provider in PROVIDERS}


def find_target(name: str) -> TargetText:
    """Return a target by the short name of its provider (`cuda`), or the long one.

    Raises:
        UsageError: when ONNX Runtime has no such provider.
    """
    names = list_target_names()
    short = name.removesuffix(SUFFIX).lower()
    short = ALIASES.get(short, short)
    if short not in names:
        why = suggest(short, [*names, *ALIASES], format_choices(names))
        raise UsageError(f"no target '{name}'", why=why, hint="orun doctor lists the providers of this machine")
    provider = names[short]
    chain = [provider, *(["CUDAExecutionProvider"] if short == "tensorrt" else []), f"CPU{SUFFIX}"]
    providers = tuple({item: OPTIONS[item]} if item in OPTIONS else item for item in dict.fromkeys(chain))
    if short == CPU:
        return TargetText(short, providers, "integers")
    is_gpu = provider in GPU_PROVIDERS or short in ("dml", "migraphx", "webgpu", "coreml")
    return TargetText(short, providers, "float16" if is_gpu else "static integers")
