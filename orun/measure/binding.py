"""Inference as a call without arguments: with arrays of the host, or with values bound to the device beforehand.

With arrays, an inference includes the copies to and from the device. With bound values it does not: inputs are on the
device already and outputs stay there. Such an inference can also be submitted without waiting for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, IOBinding

DEVICES: Mapping[str, str] = {
    "CUDAExecutionProvider": "cuda",
    "TensorrtExecutionProvider": "cuda",
    "NvTensorRTRTXExecutionProvider": "cuda",
    "DmlExecutionProvider": "dml",
    "CANNExecutionProvider": "cann",
}
"""Memory of a provider's values, by the provider's name; all other providers use the host's."""


def bind_inference(
    session: InferenceSession, feeds: Mapping[str, NDArray[Any]], *, bound: bool
) -> Callable[[], object]:
    """Return a function that runs the session on these inputs.

    Args:
        session: of ONNX Runtime.
        feeds: its inputs by name.
        bound: whether inputs and outputs are bound to the device of its first provider once, and not copied.
    """
    if not bound:
        feed = dict(feeds)
        return lambda: session.run(None, feed)
    binding = _bind(session, feeds)

    def run() -> None:
        binding.synchronize_inputs()
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()

    return run


def bind_submission(session: InferenceSession, feeds: Mapping[str, NDArray[Any]]) -> Callable[[], object]:
    """Return a function that submits an inference with bound values to the provider's stream without waiting."""
    from onnxruntime import RunOptions

    binding, options = _bind(session, feeds), RunOptions()
    options.add_run_config_entry("disable_synchronize_execution_providers", "1")
    binding.synchronize_inputs()
    return lambda: session.run_with_iobinding(binding, options)


def _bind(session: InferenceSession, feeds: Mapping[str, NDArray[Any]]) -> IOBinding:
    """Copy the inputs to the device of the session's first provider, and keep the outputs there."""
    from onnxruntime import OrtValue

    provider = session.get_providers()[0]
    device = DEVICES.get(provider, "cpu")
    number = int(session.get_provider_options().get(provider, {}).get("device_id", 0)) if device != "cpu" else 0
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_ortvalue_input(name, OrtValue.ortvalue_from_numpy(array, device, number))
    for output in session.get_outputs():
        binding.bind_output(output.name, device, number)
    return binding
