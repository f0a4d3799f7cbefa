"""Plug-in providers: libraries that plain ONNX Runtime loads, by path or from packages, and sessions with them."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orun.core.targets import GPU_PROVIDERS, Provider
from orun.errors import UsageError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, SessionOptions

CPU = "CPUExecutionProvider"
OPENVINO = "OpenVINOExecutionProvider"
ON_PROCESSOR = frozenset({CPU, "ACLExecutionProvider", "DnnlExecutionProvider", "XnnpackExecutionProvider"})
# Module of the package with a provider's plug-in.
PACKAGES: Mapping[str, str] = {
    OPENVINO: "onnxruntime_ep_openvino",
    "QNNExecutionProvider": "onnxruntime_qnn",
}
# Options of the built-in provider that the plug-in ignores with a message on stderr; `load_config` replaces them.
IGNORED: Mapping[str, frozenset[str]] = {
    OPENVINO: frozenset(
        {
            "cache_dir", "device_id", "device_luid", "enable_opencl_throttling", "enable_qdq_optimizer",
            "model_priority", "num_of_threads", "num_streams", "precision",
        }
    )
}  # fmt: skip
_REGISTERED: dict[str, str] = {}  # library by provider
DEVICE = "device_type"  # option that chooses a device of a plug-in


def is_on_processor(provider: Provider) -> bool:
    """Return whether a provider computes on the machine's CPU."""
    if provider.name == OPENVINO:
        return provider.options.get(DEVICE, "CPU").upper() == "CPU"
    return provider.name in ON_PROCESSOR


def list_available() -> tuple[str, ...]:
    """Return the names of the providers that this process can use, built in or as plug-ins."""
    import onnxruntime

    built_in = onnxruntime.get_available_providers()
    return tuple(dict.fromkeys((*built_in, *(name for name, module in PACKAGES.items() if _has_package(name, module)))))


def is_plugin(provider: Provider) -> bool:
    """Return whether a provider comes as a plug-in: the target names its library, or its package is installed."""
    return bool(provider.library) or _has_package(provider.name, _find_module(provider))


def _find_module(provider: Provider) -> str:
    """Return the module that knows the library of a plug-in; empty for a provider that no package plugs in."""
    return provider.spec.plugin if provider.spec else PACKAGES.get(provider.name, "")


@functools.cache
def _has_package(provider: str, module: str) -> bool:
    """Return whether the package of a plug-in is installed and the provider is not built in."""
    import onnxruntime

    if not module or importlib.util.find_spec(module) is None:
        return False
    return provider not in onnxruntime.get_available_providers()


def make_session(
    model: Path | bytes, options: SessionOptions, providers: Sequence[Provider], **more: Any
) -> InferenceSession:
    """Make a session with these providers, built in or plug-ins.

    Args:
        model: an ONNX file, or its bytes.
        options: its options, to which plug-ins are added.
        providers: in order of preference.
        more: further arguments of `onnxruntime.InferenceSession`.

    Raises:
        UsageError: if a plug-in cannot be used as the target says.
    """
    import onnxruntime

    # Without enable_fallback=0, ONNX Runtime's Python class catches a provider's error and retries on the CPU.
    arguments = {"enable_fallback": 0, **more}
    if any(provider.name in GPU_PROVIDERS for provider in providers):
        _load_cuda()
    if not add_plugins(options, providers):
        wanted = [(provider.name, dict(provider.options)) for provider in providers]
        return onnxruntime.InferenceSession(model, options, providers=wanted, **arguments)
    return onnxruntime.InferenceSession(model, options, **arguments)


@functools.cache
def _load_cuda() -> None:
    """Load the libraries of CUDA and cuDNN that pip has installed: ONNX Runtime itself finds only the system's."""
    import onnxruntime

    with contextlib.redirect_stdout(io.StringIO()):  # it prints what it misses; the session says so, too
        onnxruntime.preload_dlls()


def add_plugins(options: SessionOptions, providers: Sequence[Provider]) -> bool:
    """Add the plug-ins among the providers to session options; return whether there are any.

    Raises:
        UsageError: if a plug-in stands beside a built-in provider, lacks the device, or would ignore an option.
    """
    plugins = [provider for provider in providers if is_plugin(provider)]
    if not plugins:
        return False
    built_in = [provider.name for provider in providers if provider not in plugins and provider.name != CPU]
    if built_in:
        raise UsageError(
            f"{plugins[0].name} is a plug-in here and cannot be combined with {', '.join(built_in)}, which is built in",
            hint="use a target for each",
        )
    for provider in plugins:
        ignored = sorted(IGNORED.get(provider.name, frozenset()) & provider.options.keys())
        if ignored:
            raise UsageError(
                f"the plug-in of {provider.name} ignores {', '.join(ignored)}",
                why="it reads only `load_config`, a JSON text such as"
                ' {"CPU": {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": "1"}}',
            )
        kept = {name: value for name, value in provider.options.items() if name != DEVICE}
        options.add_provider_for_devices(_choose_devices(provider), kept)
    return True


def _choose_devices(provider: Provider) -> list[Any]:
    """Return the devices of a plug-in that its options choose: by default the CPU, or the first if it has none."""
    present = _register(provider)
    kinds = [_name_kind(device) for device in present]
    default = kinds[0] if kinds and "CPU" not in kinds and provider.name != OPENVINO else "CPU"
    wanted = provider.options.get(DEVICE, default)
    devices = [device for device in present if _name_kind(device) == wanted.upper()]
    if devices:
        return devices[:1]
    # onnxruntime-ep-openvino 1.8.1 refuses CPUs that are not Intel's, on which OpenVINO itself computes:
    # https://github.com/microsoft/onnxruntime/pull/31981
    intel_only = provider.name == OPENVINO and wanted.upper() == "CPU"
    note = ": its plug-in accepts only Intel CPUs, onnxruntime-openvino accepts all" if intel_only else ""
    raise UsageError(
        f"{provider.name} has no device {wanted} on this machine{note}",
        why=f"it has {', '.join(sorted(set(kinds))) or 'none'}",
    )


def _name_kind(device: Any) -> str:
    """Return `CPU`, `GPU` or `NPU`."""
    return str(device.device.type).rpartition(".")[2].partition(":")[0]


def _register(provider: Provider) -> list[Any]:
    """Load the library of a plug-in, once per process; return the devices of the provider.

    Raises:
        UsageError: if it is no plug-in, or one of another provider.
    """
    import onnxruntime

    library = provider.library or str(importlib.import_module(_find_module(provider)).get_library_path())
    before = {device.ep_name for device in onnxruntime.get_ep_devices()}
    loaded = _REGISTERED.get(provider.name)
    if loaded not in (None, library):
        raise UsageError(f"{provider.name} cannot be loaded from two libraries", why=f"{loaded}\n{library}")
    if loaded is None:
        try:
            onnxruntime.register_execution_provider_library(provider.name, library)
        except Exception as error:  # its errors share no base class but this
            why = str(error).strip().partition("\n")[0]
            raise UsageError(f"{library} is no plug-in of ONNX Runtime", why=why) from error
        _REGISTERED[provider.name] = library
    devices = onnxruntime.get_ep_devices()
    offered = {device.ep_name for device in devices} - before - {provider.name}
    present = [device for device in devices if device.ep_name == provider.name]
    if offered and not present:
        raise UsageError(
            f"{library} has no provider {provider.name}",
            why=f"it has {', '.join(sorted(offered))}",
            hint="mend its `name`",
        )
    return present
