"""Providers are believed only when a session has them."""

from __future__ import annotations

import shutil

import pytest

from orun.core.targets import Provider, Target
from orun.environment import providers


def missing(name: str, **options: str) -> str:
    return providers.explain(Target("t", (Provider(name, options),)))


def test_the_cpu_is_always_there_and_not_probed() -> None:
    providers.probe.cache_clear()
    assert providers.explain(Target("cpu")) == ""
    assert providers.probe.cache_info().misses == 0


def test_a_provider_that_no_build_has_is_missing_with_the_reason() -> None:
    text = missing("NonsenseExecutionProvider")
    assert text.startswith(
        "NonsenseExecutionProvider does not load on this machine "
        "(Specified provider 'NonsenseExecutionProvider' is not in available provider names."
    )


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine has a GPU")
def test_a_provider_that_is_built_in_but_cannot_load_is_missing() -> None:
    assert missing("CUDAExecutionProvider").startswith("CUDAExecutionProvider does not load on this machine")


def test_without_a_runtime_nothing_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orun.environment.providers.find", lambda *_: None)
    providers.probe.cache_clear()
    assert missing("CUDAExecutionProvider") == (
        "CUDAExecutionProvider does not load on this machine (onnx and ONNX Runtime are not installed)"
    )
    providers.probe.cache_clear()


UNLOADED = (
    "2026-11-22 13:00:00.1 [E:onnxruntime:Default, provider_bridge_ort.cc:2244 TryGetProviderInfo_CUDA] "
    "/onnxruntime_src/bridge.cc:1762 [ONNXRuntimeError] : 1 : FAIL : Failed to load library "
    "/my env/capi/libonnxruntime_providers_cuda.so with error: libcublasLt.so.13: cannot open shared object file"
)
ANSWER = "print('loading'); print('orun found [\"TheProvider\"]', flush=True); print('bye')"


@pytest.mark.parametrize(
    ("program", "available", "reason"),
    [
        (ANSWER, ("TheProvider",), ""),
        (f"{ANSWER}; import os; os.abort()", ("TheProvider",), ""),  # as libraries of GPUs do when they are unloaded
        ("import os; os.abort()", (), "its process died: Aborted"),
        ("import sys; sys.stderr.buffer.write(bytes([255, 10])); sys.exit(1)", (), "\ufffd"),
        ("raise ValueError('no\\nsuch')", (), "ValueError: no"),
        ("pass", (), ""),
        (f"import sys; sys.exit({UNLOADED!r})", (), "libcublasLt.so.13: cannot open shared object file"),
    ],
)
def test_what_a_probe_makes_of_its_process(
    monkeypatch: pytest.MonkeyPatch, program: str, available: tuple[str, ...], reason: str
) -> None:
    monkeypatch.setattr(providers, "PROBE", program)
    providers.probe.cache_clear()
    loaded = providers.probe("TheProvider", "{}")
    assert (loaded.providers, providers.find_first_reason(loaded.messages)) == (available, reason)
    providers.probe.cache_clear()


def test_what_the_runtime_was_built_with() -> None:
    assert "CPUExecutionProvider" in providers.list_compiled_in()
