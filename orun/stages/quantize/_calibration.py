"""Calibration: typical inputs of a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from orun.measure.dataset import Dataset
from orun.stages._data.source import Examples
from orun.stages._data.synthetic import make_examples
from orun.stages._graph.agreement import Trial
from orun.stages._graph.feeds import take_example
from orun.stages._graph.input_domain import Declarations, to_input_values
from orun.stages._graph.missing import require_ranges
from orun.stages._graph.sessions import Feed
from orun.stages.contract import Context
from orun.stages.datasets import load_dataset, note_constants
from orun.stages.quantize._integers import CANNOT, quantizing


def load_calibration_data(
    context: Context,
    dataset: Examples | None,
    names: Sequence[str],
    samples: int,
    dims: Mapping[str, Sequence[int]],
    inputs: Examples | Declarations | None,
) -> Dataset:
    """Return the examples that a parameter names; without one, made-up examples, with a note.

    `dims` are sizes of dynamic axes for made-up inputs, `inputs` their values where the stage declares them.

    Raises:
        StageFailed: when the parameter's function fails, or an example holds NaN.
    """
    if dataset is not None:
        examples = load_dataset(context, dataset, names).spread(samples)
        require_ranges(context, examples)
        note_constants(context, examples, "calibrated")
        return examples
    context.note("ranges come from made-up inputs, not from data: name typical inputs, `dataset: data.py:function`")
    over = to_input_values(inputs) if isinstance(inputs, dict) else {}
    return make_examples(context.model(), samples, dims, context.seed, over)


def make_trial(
    dims: Mapping[str, Sequence[int]], inputs: Examples | Declarations | None, *, ranges_made_up: bool
) -> Trial:
    """Return what the result is compared on; `dims` may also be sizes of made-up calibration inputs only."""
    trial = Trial(dims, inputs)
    if ranges_made_up and not trial.is_made_up:  # `dims` are for the ranges: examples of a dataset have their own sizes
        return Trial({}, inputs)
    return trial


def build_reader(context: Context, dataset: Dataset, ranks: Mapping[str, int]) -> Any:
    """Return the examples as a reader of ONNX Runtime: one dictionary after another, then None."""
    from onnxruntime.quantization import CalibrationDataReader

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


@contextmanager
def quantizing_static(context: Context, path: Path) -> Iterator[None]:
    """As `quantizing`, for the static quantizer, which also refuses values without a histogram."""
    with quantizing(context, path, "try another `format`, `activation_type` or `weight_type`"):
        try:
            yield
        except ValueError as error:
            if "is not finite" in str(error):
                why = "a value that is missing or infinite has no histogram"
                raise context.failed(CANNOT, why=why, hint="use `method: minmax`") from error
            if "bins" not in str(error):
                raise
            raise context.failed(
                CANNOT,
                why=str(error),
                hint="a value that never changes, such as a mask's, has no histogram: use `method: minmax`, or "
                "`op_types` without the operators that yield it",
            ) from error
