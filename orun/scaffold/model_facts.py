"""Facts about a model that decide what its pipeline looks like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from orun.core.serialization import Record, replace
from orun.errors import UsageError
from orun.stages._graph.feeds import PIXEL, is_image
from orun.text.units import show

Form = Literal["onnx", "torch", "tensorflow", "sklearn"]
Value: TypeAlias = str | bool | int | float
FORMS: Mapping[Form, str] = {
    "onnx": "ONNX", "torch": "PyTorch", "tensorflow": "TensorFlow", "sklearn": "scikit-learn",
}  # fmt: skip


class InputsUnknown(UsageError):
    """A PyTorch module whose inputs are not known."""

    def __init__(self, problem: str, parameters: Sequence[str], *, why: str = "", hint: str = "") -> None:
        super().__init__(problem, why=why, hint=hint)
        self.parameters = tuple(parameters)  # of its `forward`


class InputFact(Record, frozen=True):
    """An input of a model."""

    name: str  # as the model has it
    dtype: str  # NumPy's name of its type; `object` for texts
    shape: tuple[int | str, ...]  # sizes, and names of dynamic axes
    high: int | None = None  # its largest value, where a look-up table or its being an image sets one
    fill: str = "random"  # `mask` or `right-padded` for an attention mask

    def __str__(self) -> str:
        axes = ", ".join(map(str, self.shape))
        return f"{self.name} {'text' if self.dtype == 'object' else self.dtype}[{axes}]"


def with_values(item: InputFact) -> InputFact:
    """Return the input with the values that its type, axes and name suggest: pixels, or an attention mask.

    A mask is one of attention if its name says so, or if it has the axes of tokens, batch and sequence.
    """
    if is_image(item.dtype, item.shape):
        return replace(item, high=PIXEL)
    by_token = len(item.shape) == 2 and (item.name == "mask" or item.name.endswith("_mask"))  # noqa: PLR2004
    is_mask = item.dtype.startswith("int") and (by_token or item.name.endswith("attention_mask"))
    return replace(item, fill="right-padded") if is_mask else item


class ColumnFact(Record, frozen=True):
    """A column that a scikit-learn estimator takes."""

    name: str  # as in the data frame that the estimator was fitted on
    kind: Literal["number", "category", "text"] = "number"  # what it holds
    values: tuple[Value, ...] = ()  # categories, or words of a vocabulary
    center: float = 0.0  # a typical number
    spread: float = 1.0  # how far numbers are from it
    doubt: str = ""  # the part of the estimator that does not say what the column holds; empty when none
    takes_missing: bool = False  # whether it is known to take NaN, or the empty text, for a missing value

    @property
    def holds_text(self) -> bool:
        """Whether its values are texts."""
        return self.kind == "text" or any(isinstance(value, str) for value in self.values)


class GraphFacts(Record, frozen=True):
    """The model as an ONNX graph."""

    inputs: tuple[InputFact, ...] = ()
    outputs: tuple[str, ...] = ()
    batched: tuple[str, ...] = ()  # outputs whose first axis is the inputs' first one
    classes: tuple[str, ...] = ()  # outputs of integers or flags, which have no angle
    texts: tuple[str, ...] = ()  # outputs of texts, such as names of classes
    scores: int = 0  # scores of an example in its only output of several; 0 when that is not known
    layers: Mapping[str, int] = {}  # number of layers that can be quantized, by operator type
    attention: int = 0  # number of attention layers
    parameters: int = 0  # number of weights
    size: int = 0  # bytes of the model and its external data
    opset: int = 0  # version of the standard operator set
    sizes: Mapping[str, tuple[int, ...]] = {}  # of dynamic axes, where not every size will do
    is_quantized: bool = False  # whether it computes with quantized weights already
    is_single_valued: bool = False  # whether its outputs have no other floats than one for each example
    unknown: tuple[str, ...] = ()  # operators that ONNX Runtime lacks: `domain:operator`; of no domain by name

    @property
    def is_convolutional(self) -> bool:
        """Whether convolutions matter: with dynamic quantization they are slower than in float."""
        linear = self.layers.get("MatMul", 0) + self.layers.get("Gemm", 0)
        return self.layers.get("Conv", 0) * 4 >= max(linear, 1)


class ModelFacts(Record, frozen=True):
    """A model as `orun init` sees it."""

    form: Form
    source: str  # file, folder or `file.py:function`, relative to the pipeline file
    inputs: tuple[InputFact, ...] = ()  # what the conversion declares; empty where the model says it
    outputs: tuple[str, ...] = ()  # names that the conversion declares
    sizes: Mapping[str, tuple[int, ...]] = {}  # of dynamic axes, where not every size will do
    longest: int = 0  # largest number of tokens that it takes; 0 when unknown
    family: str = ""  # of `optimize/transformer`; empty when unknown
    is_ctc: bool = False  # whether it transcribes sounds, with scores of a character for each frame
    columns: tuple[ColumnFact, ...] = ()  # that a scikit-learn estimator takes
    is_matrix: bool = False  # whether it takes them as one matrix, `X`
    refusal: str = ""  # why it cannot take made-up examples; empty when it can
    needs_trust: bool = False  # whether reading it runs code that is in the file (pickle)
    warning: str = ""  # what the user should know of the file; may be empty
    graph: GraphFacts | None = None  # None until it is converted

    def choose_size(self, axis: str, usual: int) -> int:
        """Return a size of a dynamic axis: the usual one, unless the model can take others only."""
        sizes = self.sizes.get(axis) or (self.graph.sizes.get(axis) if self.graph else ())
        return fit_size(usual, sizes or ())

    @property
    def title(self) -> str:
        """Description of the model: `ONNX, 22.8 kB, 5,610 parameters, operator set 17`."""
        graph = self.graph
        sizes = (
            [show(graph.size, "B"), f"{graph.parameters:,} parameters", f"operator set {graph.opset}"] if graph else []
        )
        return ", ".join([FORMS[self.form], *sizes])


def fit_size(usual: int, sizes: Sequence[int]) -> int:
    """Return the usual size of a dynamic axis, or the nearest of those that the model can take; empty for any size."""
    return min(max(usual, min(sizes)), max(sizes)) if sizes else usual
