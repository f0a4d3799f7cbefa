"""An inference as a call without arguments: with arrays of the host, or with values bound to the device beforehand.

With arrays, what an inference takes includes the copies to and from the device; with bound values it does not: inputs
lie there already, and outputs stay there; and then an inference may also be submitted, and not waited for.
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
"""Where values of a provider lie, by its name; beside the host for all others."""


def caller(session: InferenceSession, feeds: Mapping[str, NDArray[Any]], *, bound: bool) -> Callable[[], object]:
    """What runs the session on these inputs.

    Args:
        session: of ONNX Runtime.
        feeds: its inputs by name.
        bound: whether inputs and outputs are bound to the device of its first provider once, and not copied.
    """
    if not bound:
        given = dict(feeds)
        return lambda: session.run(None, given)
    binding = _bound(session, feeds)

    def run() -> None:
        binding.synchronize_inputs()
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()

    return run


def submitter(session: InferenceSession, feeds: Mapping[str, NDArray[Any]]) -> Callable[[], object]:
    """What puts an inference with bound values on the stream of the session's provider, and does not wait for it."""
    from onnxruntime import RunOptions

    binding, options = _bound(session, feeds), RunOptions()
    options.add_run_config_entry("disable_synchronize_execution_providers", "1")
    binding.synchronize_inputs()
    return lambda: session.run_with_iobinding(binding, options)


def _bound(session: InferenceSession, feeds: Mapping[str, NDArray[Any]]) -> IOBinding:
    """The inputs, copied to the device of the session's first provider, and the outputs, which stay there."""
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
