"""Convert a fitted scikit-learn estimator or pipeline to ONNX with skl2onnx and check it against scikit-learn.

`model` names a function of yours that returns the fitted estimator, or a joblib or pickle file. Reading such a file can
run any code, so you must allow it: `trust_pickle: true`.

Gradient-boosted trees of XGBoost, LightGBM and CatBoost are estimators, too, alone or within a pipeline of
scikit-learn. Their own files need no trust: `.json` and `.ubj` of XGBoost, `.txt` of LightGBM, `.cbm` of CatBoost.
`onnxmltools` converts the first two (the extra `trees` installs it), and CatBoost itself its own. They are checked
against their own predictions like every estimator.

`data` gives the input types and the examples for the check. A dataset of one input is the matrix `X` (or texts). With
several inputs, each is a column: scikit-learn gets them as a data frame if the estimator was fitted on a data frame,
otherwise side by side. Columns that a data frame did not have, such as the labels, are left out. ONNX takes floats in
`precision`; scikit-learn computes with the same rounded values in float64. A note says how many of its answers the
rounding changes. The steps of a pipeline before trees compute in float64 in the ONNX model, too, where ONNX Runtime
can: values often lie on a threshold, and would fall to its other side. LightGBM and HistGradientBoosting have
thresholds in float64, and trees of ONNX Runtime take float32: behind a scaler a value next to a threshold may fall to
the other side even so. Their answer may also be that of scikit-learn for the values before rounding, as a threshold
that is a value of the data is rounded with it.
Texts of ONNX are never missing: imputers and encoders that were fitted with missing texts take the empty text for them.
Categories in the data that an encoder was not fitted on are noted, or refused where it refuses them.

Classifiers of several labels have probabilities `[n, labels, classes]`, and 0 for classes that a label lacks.

The check compares `predict`, and the second output of the model with `predict_proba`, `decision_function` or
`transform`. Labels must be equal and scores within the tolerance for every example, or for `min_agreement` of them. Of
two labels whose scores in scikit-learn are equal within the tolerance, either is right. Where scikit-learn's own
answers change when what it learned is rounded to float32, ten times that change is allowed. Notes say how often.

skl2onnx 1.20 converts some estimators wrongly. orun refuses isotonic calibration (use `sigmoid`). The check refuses
bags of SVC without probabilities (use `SVC(probability=True)`) and hard votes among linear SVCs of two classes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from orun.core.metrics import HIGHER_SHARE, LOWER, SIZE
from orun.errors import StageFailed
from orun.stages._data.source import LABELS, DType, Examples, Source
from orun.stages._sklearn.loading import TREE_PACKAGES, load_estimator
from orun.stages.common_parameters import Atol, Rtol
from orun.stages.contract import Context, Spec
from orun.stages.datasets import CODE
from orun.stages.params import Code, Doc, FilePath, Range, Ratio
from orun.text.lists import join_few

if TYPE_CHECKING:
    from orun.measure.dataset import Dataset
    from orun.measure.framework_model import FrameworkModel
    from orun.stages._sklearn.export import Table
    from orun.stages._sklearn.plain import Estimator

FEW = 0.95  # share of examples from which on others may differ by rounding
MEMORY_FACTOR = 14  # peak memory over the estimator's numbers: skl2onnx makes Python objects of them


@dataclass(frozen=True)
class Params:
    """Parameters of `convert/sklearn`."""

    model: Annotated[
        Code | FilePath,
        Doc(
            "Function that returns the fitted estimator, its joblib or pickle file, or a file of XGBoost (.json, "
            ".ubj), LightGBM (.txt) or CatBoost (.cbm)."
        ),
    ]
    data: Annotated[Examples, Doc("Examples for the estimator, in any form that `measure/accuracy` takes.")]
    trust_pickle: Annotated[bool, Doc("Whether a file may be unpickled, which runs code in it.")] = False
    precision: Annotated[Literal["float32", "float64"], Doc("Type of floats in the ONNX model.")] = "float32"
    opset: Annotated[int, Doc("Version of the ONNX operator set."), Range(9, 25)] = 20
    outputs: Annotated[list[str], Doc("Names of the outputs, in order; by default those of skl2onnx.")] = field(
        default_factory=list
    )
    zipmap: Annotated[
        bool, Doc("Yield probabilities as a dictionary per example, which few other stages understand.")
    ] = False
    options: Annotated[dict[str, Any], Doc("Options of skl2onnx for the estimator, such as `raw_scores: true`.")] = (
        field(default_factory=dict)
    )
    samples: Annotated[int | None, Doc("Compare on so many examples, spread evenly over the data."), Range(1)] = None
    min_agreement: Annotated[Ratio, Doc("Share of examples that must agree."), Range(0, 1)] = Ratio(1)
    atol: Atol = 1e-4
    rtol: Rtol = 1e-3


SPEC = Spec(
    output="onnx",
    tools=("scikit-learn", "skl2onnx", "onnx", "numpy", "onnxruntime|onnxruntime-gpu"),
    extra="sklearn",
    interface="changed",
    preload=("numpy", "onnx", "onnxruntime", "sklearn", "skl2onnx"),
    metrics={"size": SIZE, "nodes": LOWER, "max_abs_error": LOWER, "agreement": HIGHER_SHARE},
    runtimes={"sklearn": ("scikit-learn",)},
)


def packages(params: Params, root: Path) -> Mapping[str, str]:
    """Return the packages that a file of trees needs, each with its file."""
    del root
    needed = {} if CODE.fullmatch(params.model) else TREE_PACKAGES.get(Path(params.model).suffix.lower(), ())
    return dict.fromkeys(needed, str(params.model))


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Write the converted model to `context.result`."""
    from orun.stages._graph.differences import Tolerance
    from orun.stages._graph.io import save, weigh
    from orun.stages._sklearn.check import compare
    from orun.stages._sklearn.column_types import check_columns
    from orun.stages._sklearn.conversion import Settings
    from orun.stages._sklearn.export import correct_output_sizes, count_weight_bytes, export, tabulate_dataset
    from orun.stages._sklearn.plain import has_trees
    from orun.stages._sklearn.rounding import note_rounded_inputs
    from orun.stages.memory_headroom import require_memory

    estimator = load_estimator(context, params.model, trust_pickle=params.trust_pickle)
    _require_order_of_classes(context, estimator, params.data)
    require_memory(context, MEMORY_FACTOR, count_weight_bytes(estimator))
    dataset = _load_columns(context, estimator, params.data)
    check_columns(context, estimator, dataset.inputs)
    dataset = dataset if params.samples is None else dataset.spread(params.samples)
    data, unrounded = (tabulate_dataset(context, dataset, precision) for precision in (params.precision, "float64"))
    settings = Settings(params.opset, params.zipmap, params.options, params.outputs)
    save(export(context, estimator, data, settings), context.result)
    tolerance = Tolerance(params.atol, params.rtol)
    comparison = compare(context, estimator, data, unrounded, tolerance, raw=_wants_raw(params))
    if comparison.agreement < params.min_agreement:
        share = f"{math.floor(comparison.agreement * 1000) / 10:g}%" if comparison.agreement >= FEW else ""
        raise StageFailed(
            context.stage,
            f"the converted model disagrees with scikit-learn in output {comparison.output!r}",
            why=comparison.why,
            hint=_suggest_fix(share, unrounded, is_float32=has_trees(estimator)),
            settings={"min_agreement": share} if share else {},
        )
    correct_output_sizes(context.result, comparison.sizes)
    note_rounded_inputs(
        context,
        estimator,
        unrounded,
        data,
        tolerance,
        raw=_wants_raw(params),
        kept=comparison.unrounded,
        advice="" if has_trees(estimator) else "`precision: float64`",
    )
    return {
        **weigh(context.result),
        "max_abs_error": comparison.largest,
        "agreement": comparison.agreement,
    }


def _suggest_fix(share: str, data: Table, *, is_float32: bool) -> str:
    """Return the next step after a disagreement; ONNX Runtime has trees of float32 alone.

    `share` is that of the examples that agree, if they are many enough to do without the others; else empty.
    """
    from orun.stages._sklearn.rounding import COARSE, find_coarsest_column

    hints = [] if is_float32 else ["try `precision: float64`"]
    if is_float32 and find_coarsest_column(data.columns)[1] >= COARSE:
        hints.append(
            "trees of ONNX Runtime take float32 alone: subtract an offset from columns of large, close values, such as "
            "times, before fitting"
        )
    if share:
        hints.append(f"where a few rounded values may differ, say so: `min_agreement: {share}`")
    return "; ".join(hints)


def _require_order_of_classes(context: Context, estimator: Estimator, data: Examples) -> None:
    """Require the `classes` of the data, if they are the estimator's, to be in the order of its scores."""
    classes = getattr(estimator, "classes_", None)
    if not isinstance(data, Source) or classes is None or isinstance(classes, list):  # a list is of several labels
        return
    names = [str(name) for name in classes]
    if data.classes != names and sorted(data.classes) == sorted(names):
        raise context.failed(
            f"`classes` are {', '.join(data.classes)}; the model's scores are in the order {', '.join(names)}",
            hint=f"classes: [{', '.join(names)}]",
        )


def _load_columns(context: Context, estimator: Estimator, data: Examples) -> Dataset:
    """Load the columns that the estimator was fitted on, in their order; the dataset as it is without names.

    Raises:
        StageFailed: when one is missing.
    """
    from orun.stages._sklearn.plain import find_column, find_column_names
    from orun.stages.datasets import format_title

    names = find_column_names(estimator)
    fitted = [] if names is None else [str(column) for column in names]
    dataset = _load_unrounded(context, data, fitted)
    if names is None or len(dataset.inputs) == 1:  # which is a matrix
        return dataset
    columns = {column: find_column(column, dataset.inputs) for column in fitted}
    missing = [name for name, column in columns.items() if column is None]
    label = data.labels if isinstance(data, Source) else LABELS
    if dataset.labels is not None and label in missing:
        raise context.failed(
            f"the {type(estimator).__name__} was fitted with the column {label!r}, which `labels` takes",
            why="the label is no input of a model",
            hint=f"fit it without the label: df.drop(columns={label!r})",
        )
    if missing:
        raise context.failed(
            f"{format_title(data)} has no column {join_few([repr(column) for column in missing])}",
            why=f"the {type(estimator).__name__} was fitted with that name; the data has {', '.join(dataset.inputs)}",
        )
    return replace(dataset, inputs={column: dataset.inputs[column] for column in columns.values() if column})


def _load_unrounded(context: Context, data: Examples, columns: Collection[str]) -> Dataset:
    """Load the dataset with the floats of files in float64."""
    import numpy as np

    from orun.stages._data.source import to_source
    from orun.stages.datasets import load_dataset

    dataset = load_dataset(context, data, columns=columns)
    if isinstance(data, str) and CODE.fullmatch(data):
        return dataset
    floats: dict[str, DType] = {
        name: "float64"
        for name, values in dataset.inputs.items()
        if isinstance(values, np.ndarray) and values.dtype == np.float32
    }
    if not floats:
        return dataset
    declared = to_source(data)
    return load_dataset(context, replace(declared, types={**declared.types, **floats}), columns=columns)


def source(context: Context, params: Params, runtime: str, threads: int | None) -> FrameworkModel:
    """Open the estimator as a reference."""
    from orun.stages._sklearn.reference import SklearnReference

    del runtime  # there is one
    estimator = load_estimator(context, params.model, trust_pickle=params.trust_pickle)
    return SklearnReference(estimator, threads, raw=_wants_raw(params))


def _wants_raw(params: Params) -> bool:
    return bool(params.options.get("raw_scores"))
