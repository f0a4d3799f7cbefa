"""Convert a fitted scikit-learn estimator or pipeline to ONNX with skl2onnx and check it against scikit-learn.

`model` names a function of yours that returns the fitted estimator, or a file that joblib or pickle wrote. Such a file
can run any code when it is read, so that `trust_pickle: true` has to say that yours may.

`data` gives the types of the inputs and what both are fed. A dataset of one input is the matrix `X` (or texts); of
several, each is a column: they reach scikit-learn as a data frame where the estimator was fitted on one, otherwise side
by side. Numbers go through ONNX in `precision`, and scikit-learn computes with the same, rounded, values in float64.

Labels must be equal and scores within the tolerance, for every example, or for `min_agreement` of them: a value that
lies on the threshold of a tree may fall to either side in float32. What is compared is `predict`, and with it
`predict_proba`, `decision_function` or `transform`, whichever the model's second output is. In float32, where
scikit-learn's own answers change when what it learned is rounded to float32, ten times that change is allowed; a note
says so.

Some estimators skl2onnx 1.20 converts wrongly, and they are refused: isotonic calibration (`sigmoid` is right), bags
of an SVC without probabilities (`SVC(probability=True)` is right), and votes by label among linear machines of two
classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from orun.core.metrics import Metric
from orun.errors import StageFailed
from orun.stages._data.source import Examples
from orun.stages._graph.agreement import Atol, Rtol
from orun.stages.contract import Context, Spec
from orun.stages.datasets import CODE
from orun.stages.params import Code, Doc, FilePath, Range, Ratio

if TYPE_CHECKING:
    from orun.stages._sklearn.plain import Estimator

ROOM = 14  # times the numbers of the estimator is held at once: skl2onnx makes Python's own of them


@dataclass(frozen=True)
class Params:
    """What is converted, and how it is checked."""

    model: Annotated[Code | FilePath, Doc("Function that returns the fitted estimator, or its joblib or pickle file.")]
    data: Annotated[Examples, Doc("What the estimator takes, in any form that `measure/accuracy` takes.")]
    trust_pickle: Annotated[bool, Doc("Whether a file may be unpickled, which runs the code that is in it.")] = False
    precision: Annotated[Literal["float32", "float64"], Doc("Type of numbers with a fraction in ONNX.")] = "float32"
    opset: Annotated[int, Doc("Version of the ONNX operator set."), Range(9, 25)] = 20
    outputs: Annotated[list[str], Doc("Names for the outputs, in order; those of skl2onnx when left out.")] = field(
        default_factory=list
    )
    zipmap: Annotated[
        bool, Doc("Yield the probabilities as one dictionary an example, which few other stages understand.")
    ] = False
    options: Annotated[dict[str, Any], Doc("Options of skl2onnx for the estimator, such as `raw_scores: true`.")] = (
        field(default_factory=dict)
    )
    samples: Annotated[int | None, Doc("Compare on the first so many examples only."), Range(1)] = None
    min_agreement: Annotated[Ratio, Doc("Examples whose label and scores must agree."), Range(0, 1)] = Ratio(1)
    atol: Atol = 1e-4
    rtol: Rtol = 1e-3


SPEC = Spec(
    output="onnx",
    tools=("scikit-learn", "skl2onnx", "onnx", "numpy", "onnxruntime|onnxruntime-gpu"),
    extra="sklearn",
    interface="changed",
    preload=("numpy", "onnx", "onnxruntime", "sklearn", "skl2onnx"),
    metrics=("size", "nodes", "max_abs_error", "agreement"),
)


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Write the converted model to `context.result`."""
    from orun.stages._graph.differences import Tolerance
    from orun.stages._graph.io import save, weigh
    from orun.stages._sklearn.check import compare
    from orun.stages._sklearn.export import Wishes, export, learned, table
    from orun.stages.datasets import load_dataset
    from orun.stages.memory_headroom import require_memory

    estimator = _estimator(context, params)
    require_memory(context, ROOM, learned(estimator))
    dataset = load_dataset(context, params.data)
    data = table(context, dataset if params.samples is None else dataset.take(params.samples), params.precision)
    wishes = Wishes(params.opset, params.zipmap, params.options, params.outputs)
    save(export(context, estimator, data, wishes), context.result)
    found = compare(
        context, estimator, data, Tolerance(params.atol, params.rtol), raw=bool(params.options.get("raw_scores"))
    )
    if found.agreement < params.min_agreement:
        raise StageFailed(
            context.stage,
            f"the converted model disagrees with scikit-learn in output {found.output!r}",
            why=found.why,
            hint="try `precision: float64`; where a few rounded values may differ, say so: `min_agreement: 99%`",
        )
    return {
        **weigh(context.result),
        "max_abs_error": Metric(found.largest, better="lower"),
        "agreement": Metric(found.agreement, "ratio", "higher"),
    }


def _estimator(context: Context, params: Params) -> Estimator:
    from orun.stages.library_warnings import warnings_to

    with warnings_to(context.log):  # a file of another version of scikit-learn warns
        made = context.load(Code(params.model), ())() if CODE.fullmatch(params.model) else _unpickled(context, params)
    if not (hasattr(made, "predict") or hasattr(made, "transform")):
        raise StageFailed(
            context.stage,
            f"{params.model} must be a fitted estimator of scikit-learn",
            why=f"a {type(made).__name__} has neither `predict` nor `transform`",
        )
    return made


def _unpickled(context: Context, params: Params) -> Any:
    import joblib

    if (context.root / params.model).is_dir():
        raise StageFailed(
            context.stage,
            f"{params.model} is a folder, not an estimator",
            hint="name a function that returns it: model: file.py:function; or the file that joblib wrote",
        )
    if not params.trust_pickle:
        raise StageFailed(
            context.stage,
            f"{params.model} was not read: it is a pickle, which can run any code",
            why="`trust_pickle` is false",
            hint="if you know where it comes from: trust_pickle: true; better, return the estimator from a function",
        )
    try:
        return joblib.load(context.root / params.model)
    except Exception as error:  # whatever unpickling runs into
        raise StageFailed(
            context.stage, f"{params.model} cannot be unpickled", why=f"{type(error).__name__}: {error}"
        ) from error
