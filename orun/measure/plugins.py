"""Sessions with built-in providers, or with plug-in ones: libraries that packages bring beside a plain ONNX Runtime."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orun.core.targets import Provider
from orun.errors import UsageError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, SessionOptions

CPU = "CPUExecutionProvider"
OPENVINO = "OpenVINOExecutionProvider"
ON_PROCESSOR = frozenset({CPU, "ACLExecutionProvider", "DnnlExecutionProvider", "XnnpackExecutionProvider"})
# Module of the package that brings a provider as a plug-in.
PACKAGES: Mapping[str, str] = {
    OPENVINO: "onnxruntime_ep_openvino",
    "QNNExecutionProvider": "onnxruntime_qnn",
}
# Options of the built-in provider that the plug-in goes without, with a message on stderr: it is told by `load_config`.
IGNORED: Mapping[str, frozenset[str]] = {
    OPENVINO: frozenset(
        {
            "cache_dir", "device_id", "device_luid", "enable_opencl_throttling", "enable_qdq_optimizer",
            "model_priority", "num_of_threads", "num_streams", "precision",
        }
    )
}  # fmt: skip
_REGISTERED: set[str] = set()
DEVICE = "device_type"  # the option that chooses among the devices of a plug-in; `CPU` when left out


def on_processor(provider: Provider) -> bool:
    """Whether a provider computes on the machine's processor."""
    if provider.name == OPENVINO:
        return provider.options.get(DEVICE, "CPU").upper() == "CPU"
    return provider.name in ON_PROCESSOR


def available() -> tuple[str, ...]:
    """Names of the providers that this process can ask for: built in, or as plug-ins."""
    import onnxruntime

    built_in = onnxruntime.get_available_providers()
    return tuple(dict.fromkeys((*built_in, *(name for name in PACKAGES if plugged(name)))))


@functools.cache
def plugged(provider: str) -> bool:
    """Whether a provider comes as a plug-in: its package is there, and it is not built in."""
    import onnxruntime

    module = PACKAGES.get(provider)
    if module is None or importlib.util.find_spec(module) is None:
        return False
    return provider not in onnxruntime.get_available_providers()


def make_session(
    model: Path | bytes, options: SessionOptions, providers: Sequence[Provider], **more: Any
) -> InferenceSession:
    """A session with these providers, whichever way they come.

    Args:
        model: an ONNX file, or its bytes.
        options: its options, to which plug-ins are added.
        providers: in order of preference.
        more: further arguments of `onnxruntime.InferenceSession`.

    Raises:
        UsageError: when a plug-in cannot be used as it is asked for.
    """
    import onnxruntime

    # Without enable_fallback=0 the Python class catches the error of a provider and retries on the CPU.
    arguments = {"enable_fallback": 0, **more}
    if not add_plugins(options, providers):
        wanted = [(provider.name, dict(provider.options)) for provider in providers]
        return onnxruntime.InferenceSession(model, options, providers=wanted, **arguments)
    return onnxruntime.InferenceSession(model, options, **arguments)


def add_plugins(options: SessionOptions, providers: Sequence[Provider]) -> bool:
    """Add to session options those providers that come as plug-ins; whether there are any.

    Raises:
        UsageError: when one is beside a built-in one, has no such device, or would ignore an option.
    """
    plugins = [provider for provider in providers if plugged(provider.name)]
    if not plugins:
        return False
    others = [one.name for one in providers if one not in plugins and one.name != CPU]
    if others:
        raise UsageError(
            f"{plugins[0].name} comes as a plug-in here and cannot be beside {', '.join(others)}, which is built in",
            hint="give each a target of its own",
        )
    for provider in plugins:
        ignored = sorted(IGNORED.get(provider.name, frozenset()) & provider.options.keys())
        if ignored:
            raise UsageError(
                f"the plug-in of {provider.name} ignores {', '.join(ignored)}",
                why="it is told by `load_config` alone, a JSON text such as"
                ' {"CPU": {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": "1"}}',
            )
        kept = {name: value for name, value in provider.options.items() if name != DEVICE}
        options.add_provider_for_devices(_devices(provider), kept)
    return True


def _devices(provider: Provider) -> list[Any]:
    """The devices of a plug-in that its options ask for."""
    import onnxruntime

    _register(provider.name)
    there = [device for device in onnxruntime.get_ep_devices() if device.ep_name == provider.name]
    usual = "CPU" if provider.name == OPENVINO or any(_kind(device) == "CPU" for device in there) else "NPU"
    wanted = provider.options.get(DEVICE, usual)
    found = [device for device in there if _kind(device) == wanted.upper()]
    if not found:
        raise UsageError(
            f"{provider.name} has no device {wanted} on this machine{_elsewhere(provider, wanted)}",
            why=f"it has {', '.join(sorted({_kind(device) for device in there})) or 'none'}",
        )
    return found[:1]


def _elsewhere(provider: Provider, wanted: str) -> str:
    """What takes a device that the plug-in does not."""
    # onnxruntime-ep-openvino 1.8.1 leaves out CPUs of other vendors than Intel, on which OpenVINO itself computes:
    # https://github.com/microsoft/onnxruntime/pull/31981
    if provider.name == OPENVINO and wanted.upper() == "CPU":
        return ": its plug-in takes CPUs of Intel alone, onnxruntime-openvino takes others, too"
    return ""


def _kind(device: Any) -> str:
    """`CPU`, `GPU` or `NPU`."""
    return str(device.device.type).rpartition(".")[2].partition(":")[0]


def _register(provider: str) -> None:
    """Load the library of a plug-in, once to a process."""
    import onnxruntime

    if provider in _REGISTERED:
        return
    package = importlib.import_module(PACKAGES[provider])
    onnxruntime.register_execution_provider_library(provider, package.get_library_path())
    _REGISTERED.add(provider)
