"""Request and result of an accuracy measurement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from orun.core.metrics import Better, Metric, Unit
from orun.errors import UsageError
from orun.measure.accuracy.names import FIDELITY, QUANTITIES
from orun.measure.dataset import LABEL_COLUMNS, Dataset, Values
from orun.measure.dataset_origin import Origin

if TYPE_CHECKING:
    from orun.measure.metrics.boxes import BoxOutputs

Floats: TypeAlias = NDArray[np.float64]
Function: TypeAlias = Callable[[Mapping[str, Values], Dataset], Any]


@dataclass(frozen=True)
class Request:
    """Accuracy measurement to make.

    Attributes:
        metrics: names of built-in metrics.
        functions: custom metrics by name.
        better: direction of custom metrics by name; `higher` when left out.
        outputs: outputs to measure, all when empty; task metrics judge the first.
        batch: most examples that are fed together.
        seed: of the bootstrap.
        slices: fields of the dataset; every metric is measured for each of their values, too.
        resamples: calls, on resamples, of a function that returns one number of all examples; None for none.
        origin: where the examples come from.
        highest: largest value of inputs that have one, by name, for errors.
        class_axis: axis of an output along which the scores of the classes lie.
        postprocess: function of the user from outputs to what metrics against labels judge; None for the outputs.
        boxes: outputs of detected boxes; None without metrics of boxes.
        decode: turns the judged output into texts; None if it holds texts.
        normalize: applied to the texts of outputs and labels before errors are counted.
    """

    metrics: tuple[str, ...]
    functions: Mapping[str, Function]
    better: Mapping[str, Better]
    outputs: tuple[str, ...]
    batch: int
    seed: int
    slices: tuple[str, ...] = ()
    resamples: int | None = None
    origin: Origin = field(default_factory=Origin)
    highest: Mapping[str, float] = field(default_factory=dict)
    class_axis: int = -1
    postprocess: Function | None = None
    boxes: BoxOutputs | None = None
    decode: Callable[[Values], Values] | None = None
    normalize: Callable[[str], str] = str

    @property
    def task(self) -> tuple[str, ...]:
        """The built-in metrics that need labels."""
        return tuple(name for name in self.metrics if name not in FIDELITY)

    def choose_unit(self, metric: str) -> Unit:
        """Unit of a metric."""
        return (QUANTITIES[metric].unit or "") if metric in QUANTITIES else ""

    def choose_direction(self, metric: str) -> Better:
        """Return the direction in which a metric improves."""
        return QUANTITIES[metric].better if metric in QUANTITIES else self.better.get(metric, "higher")


def build_missing_labels_error(request: Request, metric: str, dataset: Dataset) -> UsageError:
    """Return the error of a metric that needs labels when the dataset has none.

    Args:
        request: the measurement.
        metric: name of the metric.
        dataset: the dataset.
    """
    origin = request.origin
    if not origin.title:
        return UsageError(
            f"{metric} needs labels, and made-up inputs have none",
            hint="name examples with labels: dataset: data.py:function, or a file with `labels`",
        )
    why = f"it has {', '.join(dict.fromkeys((*dataset.inputs, *dataset.fields)))}"
    if origin.is_function:
        hint = "return them: orun.Dataset(inputs, labels)"
    elif origin.is_folder:
        hint = "put the images of each class into a folder of its own, or name a function: dataset: data.py:function"
    elif origin.title.lower().endswith(".txt"):
        why, hint = "a .txt holds texts alone", "use a .csv, .jsonl or .parquet with a column of labels"
    else:
        columns = origin.list_columns()
        why = f"it has {', '.join(columns)}"
        column = next((name for name in LABEL_COLUMNS if name in columns), "NAME")
        hint = f"say which of these they are: dataset: {{path: {origin.title}, labels: {column}, ...}}"
    return UsageError(f"{metric} needs labels, and the dataset {origin.title} has none", why=why, hint=hint)


@dataclass(frozen=True)
class Report:
    """Result of an accuracy measurement.

    Attributes:
        metrics: by name.
        examples: value of each example, `[n]`, by `metric/role` or `metric[output]/role`. For fidelity metrics the
            values of the candidates follow.
        uncompared: outputs of numbers that no requested metric covers, each with a fidelity metric that does; empty
            if no fidelity metric was requested.
        warnings: sentences on figures that tell less than they seem to.
    """

    metrics: Mapping[str, Metric]
    examples: Mapping[str, Floats]
    uncompared: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
