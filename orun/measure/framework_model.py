"""Models of other frameworks in the place of an ONNX Runtime session: the source models of convert stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[Any]

Feed: TypeAlias = Mapping[str, "Array"]


@dataclass(frozen=True)
class Value:
    """Input or output of a model: name, type and shape as its session writes them."""

    name: str
    type: str
    shape: Sequence[int | str | None]


class FrameworkModel(Protocol):
    """Model of another framework as a function of named arrays."""

    @property
    def title(self) -> str:
        """Framework, version and way to run it: `PyTorch 2.13.0, eager`."""

    def __call__(self, feed: Feed) -> Sequence[Array]:
        """Run the model; return its outputs in the order of the ONNX model's."""

    def bind(self, feed: Feed) -> Callable[[], object]:
        """Return a function that runs the model on these inputs, which are converted for the framework beforehand."""


Opener: TypeAlias = Callable[[], FrameworkModel]  # picklable: the process that runs the model calls it


class FrameworkSession:
    """Model of another framework with the part of `onnxruntime.InferenceSession` that measurements use.

    Args:
        model: the ONNX model that was converted from it, which names its inputs and outputs.
        opened: the model itself.
    """

    def __init__(self, model: Path, opened: FrameworkModel) -> None:
        import onnx

        graph = onnx.load(model, load_external_data=False).graph
        stored = {tensor.name for tensor in graph.initializer}
        self._model = opened
        self._inputs = [_build_value(item) for item in graph.input if item.name not in stored]
        self._outputs = [_build_value(item) for item in graph.output]

    @property
    def title(self) -> str:
        """Framework, version and way to run it."""
        return self._model.title

    def get_inputs(self) -> list[Value]:
        """Return the model's inputs."""
        return self._inputs

    def get_outputs(self) -> list[Value]:
        """Return the model's outputs."""
        return self._outputs

    def run(self, outputs: Sequence[str] | None, feed: Feed) -> list[Array]:
        """Return the values of these outputs in the form that the ONNX model declares; of all when None."""
        answers = self._model(feed)
        forms = {value.name: value for value in self._outputs}
        values = {name: _fit_form(answer, form) for (name, form), answer in zip(forms.items(), answers, strict=False)}
        return [values[name] for name in outputs or forms]

    def bind(self, feed: Feed) -> Callable[[], object]:
        """See `FrameworkModel`."""
        return self._model.bind(feed)


def _build_value(item: Any) -> Value:
    from onnx import helper

    tensor = item.type.tensor_type
    axes = [axis.dim_value if axis.HasField("dim_value") else axis.dim_param or None for axis in tensor.shape.dim]
    kind = helper.tensor_dtype_to_np_dtype(tensor.elem_type).name if tensor.elem_type else "object"
    return Value(item.name, kind, axes)


def _fit_form(answer: Array, form: Value) -> Array:
    """Return an answer with the type and axes of an output: scikit-learn's labels and scores often have one axis."""
    import numpy as np

    value = np.asarray(answer)
    if value.ndim == 1 and len(form.shape) == 2:  # noqa: PLR2004 - examples and classes
        both = form.shape[1] == 2 and value.dtype.kind == "f"  # noqa: PLR2004 - classes; scikit-learn has one score
        value = np.stack([-value, value], axis=1) if both else value[:, None]
    return value.astype(form.type, copy=False)
