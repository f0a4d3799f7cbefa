"""Calibration: typical inputs of a model, and the values inside the model when it runs on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from orun.errors import StageFailed
from orun.stages._data.source import Examples
from orun.stages.contract import Context
from orun.stages.quantize._integers import CANNOT, quantizing

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import ModelProto

    from orun.measure.dataset import Dataset
    from orun.stages._graph.agreement import Trial
    from orun.stages._graph.input_domain import Declarations
    from orun.stages._graph.sessions import Feed


def load_calibration_data(
    context: Context,
    dataset: Examples | None,
    names: Sequence[str],
    samples: int,
    dims: Mapping[str, Sequence[int]],
    inputs: Examples | Declarations | None = None,
) -> Dataset:
    """Return the examples that a parameter names; without one, made-up examples, with a warning.

    Args:
        context: of the stage.
        dataset: the parameter.
        names: names of the model's inputs.
        samples: how many examples at most.
        dims: sizes of dynamic axes for made-up inputs.
        inputs: values of made-up inputs, where the stage declares them.

    Raises:
        StageFailed: when the parameter's function fails, or an example holds NaN.
    """
    from orun.stages._data.synthetic import make_examples
    from orun.stages._graph.input_domain import to_input_values
    from orun.stages._graph.missing import require_ranges
    from orun.stages.datasets import load_dataset

    if dataset is not None:
        examples = load_dataset(context, dataset, names).take(samples)
        require_ranges(context, examples)
        return examples
    context.log.warning("no dataset: ranges come from made-up inputs, not from data")
    over = to_input_values(inputs) if isinstance(inputs, dict) else {}
    return make_examples(context.model(), samples, dims, context.seed, over)


def make_trial(
    dims: Mapping[str, Sequence[int]], inputs: Examples | Declarations | None, *, ranges_made_up: bool
) -> Trial:
    """Return what the result is compared on; `dims` may also be sizes of made-up calibration inputs only."""
    from orun.stages._graph.agreement import Trial

    made_up = inputs is None or isinstance(inputs, dict)
    return Trial(dims if made_up or not ranges_made_up else {}, inputs)


def reader_of(context: Context, dataset: Dataset, ranks: Mapping[str, int]) -> Any:
    """Return the examples as a reader of ONNX Runtime: one dictionary after another, then None.

    Args:
        context: of the stage.
        dataset: the examples.
        ranks: number of axes of each input of the model.
    """
    import numpy as np
    from onnxruntime.quantization import CalibrationDataReader

    from orun.stages._graph.feeds import take_example

    class Reader(CalibrationDataReader):  # type: ignore[misc]  # ONNX Runtime is not checked
        shapes_differ = not all(isinstance(dataset.inputs[name], np.ndarray) for name in ranks)

        def __init__(self) -> None:
            self.set_range(0, len(dataset))

        def __len__(self) -> int:
            return len(dataset)

        def set_range(self, start_index: int, end_index: int) -> None:
            self.numbers = iter(range(start_index, end_index))

        def get_next(self) -> Feed | None:
            number = next(self.numbers, None)
            if number is None:
                return None
            context.progress(number, len(dataset), "examples calibrated")
            return take_example(dataset.inputs, number, ranks)

    return Reader()


def rows_of(model: ModelProto, names: Sequence[str], dataset: Dataset) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield `values_of` as `[rows, channels]`; the channels are the last axis."""
    for values in values_of(model, names, dataset):
        yield {name: value.reshape(-1, value.shape[-1]) for name, value in values.items()}


def values_of(model: ModelProto, names: Sequence[str], dataset: Dataset) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield values of a model for each example.

    Args:
        model: whole in memory.
        names: names of inputs, or of inner values whose types are declared or can be inferred.
        dataset: the examples.
    """
    from onnx.onnx_pb import ValueInfoProto

    from orun.core.targets import Target
    from orun.measure.session import open_session
    from orun.stages._graph.feeds import take_example
    from orun.stages._graph.io import input_names, save
    from orun.stages._graph.signature import ranks_of

    inputs, ranks = input_names(model), ranks_of(model)
    inner = [name for name in names if name not in inputs]
    declared = {value.name for value in model.graph.output}
    copy = type(model)()
    copy.CopyFrom(model)
    copy.graph.output.extend(ValueInfoProto(name=name) for name in inner if name not in declared)
    with TemporaryDirectory(dir=".") as folder:
        path = Path(folder, "inner_values.onnx")
        save(copy, path, external=True)
        session = open_session(path, Target("cpu", session={"intra_op_num_threads": 1}))
    for number in range(len(dataset)):
        feed = take_example(dataset.inputs, number, ranks)
        values = dict(zip(inner, session.run(inner, feed), strict=True)) if inner else {}
        yield {name: values[name] if name in values else feed[name] for name in names}


@contextmanager
def quantizing_static(context: Context, path: Path) -> Iterator[None]:
    """As `quantizing`, for the static quantizer, which also refuses values without a histogram."""
    with quantizing(context, path, "try another `format`, `activation_type` or `weight_type`"):
        try:
            yield
        except ValueError as error:
            if "bins" not in str(error):
                raise
            raise StageFailed(
                context.stage,
                CANNOT,
                why=str(error),
                hint="a value that never changes, such as a mask's, has no histogram: use `method: minmax`, or "
                "`op_types` without the operators that yield it",
            ) from error
