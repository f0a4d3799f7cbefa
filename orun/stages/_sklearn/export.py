"""Conversion of a fitted scikit-learn estimator to an ONNX model, with skl2onnx."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, helper, numpy_helper
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.svm import LinearSVC
from sklearn.utils.validation import check_is_fitted

from orun.core.dynamic_axes import BATCH
from orun.measure.dataset import Array, Dataset
from orun.stages._data.packages import need
from orun.stages._graph.domains import tidy_domains
from orun.stages._graph.io import load_graph
from orun.stages._graph.names import make_unique, name_values, rename_values
from orun.stages._sklearn.conversion import NUMBERS, Settings, convert, list_options
from orun.stages._sklearn.plain import Estimator, find_column_names, iter_parts, remove_wrappers, take_last_step, walk
from orun.stages.contract import Context
from orun.stages.library_errors import failing
from orun.stages.library_warnings import warnings_to
from orun.stages.name_checks import require_names, require_order

FRAMES = ("pandas", "polars")  # packages of the data frames that a transformer may yield


@dataclass(frozen=True, eq=False)
class Table:
    """Examples for the estimator: an array `[n, ...]` for each input, as ONNX takes it."""

    columns: Mapping[str, Array]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def feed(self, rows: slice) -> dict[str, Array]:
        """Return some rows for the ONNX model."""
        return {name: values[rows] for name, values in self.columns.items()}

    def to_matrix(self, estimator: Estimator, *, widened: bool = True) -> Any:
        """Return all rows as scikit-learn takes them, with floats in float64 if `widened`.

        Raises:
            MissingPackages: when it takes data frames, or makes some inside, of a package that is not installed.
        """
        for part in iter_parts(estimator):
            frames = getattr(part, "_sklearn_output_config", {}).get("transform")
            if frames in FRAMES:
                need(frames, f"the {type(part).__name__}, which has set_output(transform={frames!r}),")
        wide = {
            name: values.astype(np.float64) if widened and values.dtype.kind == "f" else values
            for name, values in self.columns.items()
        }
        if len(wide) == 1:
            return next(iter(wide.values()))
        if hasattr(estimator, "feature_names_in_"):
            need("pandas", f"the {type(estimator).__name__}, which was fitted on a data frame,")
            import pandas as pd  # type: ignore[import-untyped,import-not-found,unused-ignore]

            return pd.DataFrame({name: values.reshape(len(values)) for name, values in wide.items()})
        parts = [values.reshape(len(values), -1) for values in wide.values()]
        same = all(part.dtype.kind in NUMBERS for part in parts)
        return np.concatenate([part if same else part.astype(object) for part in parts], axis=1)


def count_weight_bytes(estimator: Estimator) -> int:
    """Return the bytes, in float32, of all arrays of numbers in an estimator."""
    arrays = (value for value in walk(estimator) if isinstance(value, np.ndarray))
    return sum(4 * array.size for array in arrays if array.dtype.kind in "iuf")


def tabulate_dataset(context: Context, dataset: Dataset, precision: str) -> Table:
    """Return the inputs of a dataset, with floats in that precision; one of several inputs is a column `[n, 1]`.

    Raises:
        StageFailed: when the examples differ in shape.
    """
    for name, values in dataset.inputs.items():
        if not isinstance(values, np.ndarray):
            raise context.failed(f"the examples of {name!r} differ in shape, and an estimator takes one")
    return tabulate(dataset.inputs, precision)


def tabulate(inputs: Mapping[str, Any], precision: str) -> Table:
    """Return arrays `[n, ...]` as a table, as `tabulate_dataset` does; numbers alone are a column, too."""
    columns: dict[str, Array] = {}
    for name, values in inputs.items():
        typed = values.astype(precision) if values.dtype.kind == "f" else values
        typed = typed.astype(object) if typed.dtype.kind in "US" else typed
        is_column = len(inputs) > 1 or typed.dtype.kind in NUMBERS
        columns[name] = typed[:, None] if typed.ndim == 1 and is_column else typed
    return Table(columns)


def export(context: Context, estimator: Estimator, data: Table, settings: Settings) -> ModelProto:
    """Convert the estimator; name each operator set once, and the first axis `batch`.

    Raises:
        StageFailed: when skl2onnx cannot convert the estimator.
    """
    from orun.stages._sklearn.compat import (
        weigh_by_distances,
        write_booleans_as_integers,
        write_sides_of_missing_values,
    )
    from orun.stages._sklearn.converters import register
    from orun.stages._sklearn.trees import register_trees

    register()
    register_trees(estimator)
    plain = remove_wrappers(estimator)
    _require_zipmap(context, plain, settings)
    _refuse_isotonic(context, plain)
    hint = "skl2onnx.supported_converters() lists what can be converted"
    if len(data.columns) > 1 and find_column_names(estimator) is None:
        names = ", ".join(data.columns)
        hint = f"if not all of {names} are its inputs: `inputs: [NAME]` beside the path of the data; {hint}"
    if len({values.dtype.kind for values in data.columns.values()} & set("iuf")) > 1:
        hint += "; it may want numbers of one type: `types: {NAME: float32}` beside the path of the data"
    if not _is_fitted(estimator):  # a hint only, as an estimator without a state needs no fitting
        hint = "it does not look fitted: return model.fit(X, y)"
    problem = f"skl2onnx cannot convert the {type(estimator).__name__}"
    with (
        failing(context, problem, hint),
        warnings_to(context.log),
        write_booleans_as_integers(),
        write_sides_of_missing_values(),
        weigh_by_distances(),
        _naming_missing_converter(context, problem),
    ):
        model = convert(context, plain, data.columns, settings)
    if yields_only_labels(plain):
        del model.graph.output[1:]
    classes = getattr(take_last_step(plain), "classes_", None)
    if isinstance(classes, list) and len(model.graph.output) > 1 and not settings.zipmap:
        _put_examples_first(model, [len(group) for group in classes])
    tidy_domains(model)
    _name(context, model, [*data.columns], settings.outputs)
    return model


def correct_output_sizes(path: Path, sizes: Mapping[str, Sequence[int]]) -> None:
    """Declare the sizes that outputs have; skl2onnx declares one number for several of a forest.

    Args:
        path: of the converted model, which is changed.
        sizes: of each output, the sizes of its axes behind that of the examples.
    """
    model = load_graph(path)
    is_wrong = False
    for output in model.graph.output:
        axes = output.type.tensor_type.shape.dim[1:]
        for axis, size in zip(axes, sizes[output.name], strict=False):
            if axis.HasField("dim_value") and axis.dim_value != size:
                axis.dim_value, is_wrong = size, True
    if is_wrong:
        onnx.save(model, path)


def _put_examples_first(model: ModelProto, counts: Sequence[int]) -> None:
    """Let the probabilities of several labels have the axis of the examples first, `[n, labels, classes]`.

    skl2onnx yields a sequence of arrays `[n, classes]`, or an array `[labels, n, classes]`. A label of fewer classes
    than another has probabilities of 0 behind them.
    """
    graph, output = model.graph, model.graph.output[1]
    inner = make_unique(output.name, {name for node in graph.node for name in (*node.input, *node.output)})
    rename_values(model, {output.name: inner})
    if output.type.HasField("sequence_type"):
        element = output.type.sequence_type.elem_type.tensor_type.elem_type
        padded = inner if len(set(counts)) == 1 else _pad(graph, inner, counts)
        node = helper.make_node("ConcatFromSequence", [padded], [output.name], axis=1, new_axis=1)
    else:
        element = output.type.tensor_type.elem_type
        node = helper.make_node("Transpose", [inner], [output.name], perm=[1, 0, 2])
    graph.node.append(node)
    output.CopyFrom(helper.make_tensor_value_info(output.name, element, [None, None, None]))


def _pad(graph: GraphProto, sequence: str, counts: Sequence[int]) -> str:
    """Return a sequence of arrays of one width: zeros are appended to those of fewer classes."""
    padded = [f"{sequence}_{number}_padded" for number in range(len(counts))]
    for number, count in enumerate(counts):
        place, item, pads = (f"{sequence}_{number}_{part}" for part in ("place", "classes", "pads"))
        graph.initializer.append(numpy_helper.from_array(np.array(number), place))
        graph.initializer.append(numpy_helper.from_array(np.array([0, 0, 0, max(counts) - count]), pads))
        graph.node.append(helper.make_node("SequenceAt", [sequence, place], [item]))
        graph.node.append(helper.make_node("Pad", [item, pads], [padded[number]]))
    graph.node.append(helper.make_node("SequenceConstruct", padded, [f"{sequence}_padded"]))
    return f"{sequence}_padded"


def _is_fitted(estimator: Estimator) -> bool:
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    except TypeError:  # a class of the user
        return True
    return True


def _require_zipmap(context: Context, estimator: Estimator, settings: Settings) -> None:
    last = take_last_step(estimator)
    if "zipmap" in settings.options:
        hint = "`zipmap: true` beside `options`, or nothing"
        raise context.failed("`zipmap` is a parameter of its own, not one of `options`", hint=hint)
    if settings.zipmap and ("zipmap" not in list_options(last) or isinstance(last, LinearSVC)):
        raise context.failed(f"`zipmap` needs probabilities, and a {type(last).__name__} has none")


def _refuse_isotonic(context: Context, estimator: Estimator) -> None:
    """Refuse a calibration that skl2onnx converts wrongly, often for few examples: it takes the nearest step."""
    if any(isinstance(part, CalibratedClassifierCV) and part.method == "isotonic" for part in iter_parts(estimator)):
        raise context.failed(
            f"skl2onnx cannot convert the {type(estimator).__name__}",
            why="it does not interpolate in the isotonic calibration of a CalibratedClassifierCV",
            hint='calibrate with method="sigmoid"',
        )


def yields_only_labels(estimator: Estimator) -> bool:
    """Return whether skl2onnx yields probabilities that scikit-learn lacks: the shares of a hard vote."""
    last = take_last_step(estimator)
    return isinstance(last, VotingClassifier) and last.voting == "hard"


@contextmanager
def _naming_missing_converter(context: Context, problem: str) -> Iterator[None]:
    """Turn skl2onnx's general advice into an error that names the estimator without a converter."""
    from skl2onnx.common.exceptions import MissingConverter, MissingShapeCalculator

    from orun.stages._sklearn.converters import FUNCTIONS

    try:
        yield
    except (MissingConverter, MissingShapeCalculator) as error:
        named = re.search(r"<class '(?:\w+\.)*(\w+)'>", str(error))
        why = f"it has no converter for {named[1]}" if named else str(error)
        hint = (
            "take another, or leave it out of the model; for a class of your own, call "
            "skl2onnx.update_registered_converter in the file of `model`"
        )
        raise context.failed(problem, why=why, hint=hint) from error
    except RuntimeError as error:
        if "FunctionTransformer is not supported" not in str(error):
            raise
        known = ", ".join(f"np.{function.__name__}" for function in FUNCTIONS)
        why = "it has no converter for the function of a FunctionTransformer"
        raise context.failed(problem, why=why, hint=f"these have: {known}") from error


def _name(context: Context, model: ModelProto, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Give the model these inputs, as skl2onnx makes identifiers of the names of several, and these outputs, if any."""
    names = [value.name for value in model.graph.output]
    if outputs and len(outputs) != len(names):
        raise context.failed(
            f"the converted model has {len(names)} outputs, and `outputs` names {len(outputs)}",
            why=f"skl2onnx calls them {', '.join(names)}",
        )
    require_order(context, outputs or names, names)
    require_names(context, inputs, outputs)
    name_values(model, inputs, outputs or names)
    for value in (*model.graph.input, *model.graph.output):
        axes = value.type.tensor_type.shape.dim
        if len(axes) and not axes[0].HasField("dim_value"):
            axes[0].dim_param = BATCH
