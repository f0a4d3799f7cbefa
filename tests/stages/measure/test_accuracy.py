"""`measure/accuracy` on small real models: figures worked out by hand, and every way in which it refuses."""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser
from PIL import Image

from orun.core.metrics import UNBOUNDED, Comparison, Estimate, Metric
from orun.core.targets import Provider, Target
from orun.errors import StageFailed, UsageError
from orun.measure.accuracy.names import FIDELITY, READ, TASK
from orun.measure.metrics.paired import estimate_interval, estimate_tango_interval
from orun.stages.measure.accuracy import Params, metrics
from orun.stages.params import build, list_params
from tests.stages.models import parse
from tests.stages.support import StageRun, artifact, run_stage

EYE = np.eye(3, dtype=np.float32)
DATA = """
import numpy as np
import orun

X = np.array([[3, 1, 0], [0, 2, 1], [1, 0, 4], [5, 4, 0]], np.float32)

def plain():
    return orun.Dataset({"x": X})

def labelled():
    return orun.Dataset({"x": X}, labels=[0, 1, 2, 1])

def searched():
    return orun.Dataset({"x": X}, labels=[0, 1, 2, 0], candidates={"x": np.eye(3, dtype=np.float32)})

def gaps():
    x = X.copy()
    x[2, 0] = np.nan
    return orun.Dataset({"x": x}, labels=[0, 1, 2, 0])

def windows():
    return orun.Dataset({"x": [X[:2], X[:0], X[:1]]}, labels=[0, 1, 2])

def integers():
    return orun.Dataset({"x": X.astype(np.int64)})

def misnamed():
    return orun.Dataset({"image": X})

def forgotten():
    return X

def first_score(outputs, dataset):
    return outputs["y"][:, 0]

def largest_error(outputs, dataset):
    return float(abs(outputs["y"] - dataset.inputs["x"]).max())

def too_many(outputs, dataset):
    return [1.0, 2.0]

def nothing(outputs, dataset):
    print(outputs)

def text(outputs, dataset):
    return "0.9"

def texts(outputs, dataset):
    return ["0.9" for _ in range(len(dataset))]

def texts_of_objects(outputs, dataset):
    return np.array(["0.9" for _ in range(len(dataset))], object)

def named(outputs, dataset):
    return {"score": 1.0}

def swapped(predictions, labels):
    return (predictions.argmax(1) == labels).mean()

def not_a_number(outputs, dataset):
    return float("nan")

def never_defined(outputs, dataset):
    return np.full(len(dataset), np.nan)

def where_right(outputs, dataset):
    right = outputs["y"].argmax(1) == dataset.labels
    return np.where(dataset.labels == 0, np.nan, right)

def of_ones(outputs, dataset):
    ones = dataset.labels == 1
    return float((outputs["y"].argmax(1) == 1)[ones].mean()) if ones.any() else float("nan")

def undefined(outputs, dataset):
    return np.array([1.0, 0.0, np.nan, np.inf])

def candidates(outputs, dataset):
    return float(outputs["candidates.y"].sum())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data.py").write_text(DATA, "utf-8")
    return tmp_path


def linear(weight: np.ndarray, *, output: str = "y", to: int = TensorProto.FLOAT) -> onnx.ModelProto:
    """`y = cast(x @ weight)`, `[batch, 3]`."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Cast", ["product"], [output], to=to),
    ]
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3]),
        helper.make_tensor_value_info(output, to, ["batch", weight.shape[1]]),
    ]
    return model(helper.make_graph(nodes, "linear", ends[:1], ends[1:], [numpy_helper.from_array(weight, "w")]))


def model(graph: onnx.GraphProto) -> onnx.ModelProto:
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def measure(
    folder: Path, params: Mapping[str, object], target: Target | None = None, **models: onnx.ModelProto
) -> StageRun:
    inputs = {port: artifact(folder, model) for port, model in models.items()}
    return run_stage("measure/accuracy", folder, params, inputs=inputs, root=folder, target=target)


def refusal(folder: Path, params: Mapping[str, object], **models: onnx.ModelProto) -> str:
    with pytest.raises((StageFailed, UsageError)) as error:
        measure(folder, params, **models)
    return str(error.value)


def test_a_model_against_itself(folder: Path) -> None:
    params = {"dataset": "data.py:plain", "metrics": ["cosine", "max_abs", "sqnr", "agreement"]}
    run = measure(folder, params, model=linear(EYE), reference=linear(EYE))
    assert {name: metric.value for name, metric in run.metrics.items()} == {
        "cosine": 1.0,
        "cosine.mean": 1.0,
        "cosine.min": 1.0,
        "max_abs": 0.0,
        "sqnr": pytest.approx(313.07, abs=0.01),
        "agreement": 1.0,
    }
    assert list(run.metrics) == list(metrics(build(Params, params)))
    assert run.progress[-1] == (4, 4, "examples")


@pytest.mark.parametrize("metric", ["agreement", "cosine"])
def test_a_single_score_has_neither_class_nor_angle(folder: Path, metric: str) -> None:
    half = np.array([[0.5], [0.5], [0.5]], np.float32)
    models = {"model": linear(-half), "reference": linear(half)}
    params = {"dataset": "data.py:plain", "metrics": ["max_abs", metric]}
    assert refusal(folder, params, **models) == (
        f"no output can be compared by {metric}\n"
        "  y is tensor(float) with a single score\n"
        "  hint: compare single scores by `sqnr`, `relative` or `max_abs`"
    )
    assert measure(folder, {**params, "metrics": ["max_abs"]}, **models).value("max_abs") == 9.0


def test_figures_against_a_reference_are_exact(folder: Path) -> None:
    changed = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 0]], np.float32)  # loses the third score
    params = {"dataset": "data.py:plain", "metrics": ["cosine", "max_abs", "agreement"]}
    run = measure(folder, params, model=linear(changed), reference=linear(EYE))
    assert run.value("cosine.min") == pytest.approx(1 / np.sqrt(17))
    assert run.metrics["max_abs"] == Metric(4.0, better="lower")
    assert run.metrics["agreement"] == Metric(0.75, "ratio", "higher")


def test_a_task_is_compared_example_by_example(folder: Path) -> None:
    swapped = EYE[:, [1, 0, 2]]  # answers 1 for 0 and 0 for 1: right on examples 2 and 3
    run = measure(
        folder,
        {"dataset": "data.py:labelled", "metrics": ["accuracy"]},
        model=linear(swapped),
        reference=linear(EYE),
    )
    low, high = estimate_tango_interval(1, 2, 4)
    assert run.metrics["accuracy"] == Metric(
        0.5,
        "ratio",
        "higher",
        "sample",
        estimate_interval(np.array([0.0, 0.0, 1.0, 1.0]), 0),
        Comparison(
            0.75,
            Estimate(0.5 / 0.75, (0.75 + low) / 0.75, (0.75 + high) / 0.75),
            Estimate(-0.25, low, high),
            "McNemar's score interval over 4 examples, 1 better and 2 worse",
            4,
            3,
        ),
    )


def test_retrieval_among_candidates(folder: Path) -> None:
    params = {"dataset": "data.py:searched", "metrics": ["mrr", "recall_at_1", "recall_at_5"]}
    run = measure(folder, params, model=linear(EYE[:, [1, 0, 2]]), reference=linear(EYE))
    assert run.value("recall_at_1") == 1.0  # angles survive the swap of two axes
    assert run.value("mrr") == 1.0
    assert run.progress[-1] == (7, 7, "examples")
    broken = measure(folder, params, model=linear(np.ones((3, 3), np.float32)), reference=linear(EYE))
    assert broken.value("recall_at_1") == 0.0
    assert broken.value("recall_at_5") == 1.0
    assert broken.value("mrr") == pytest.approx(1 / 3)


def test_the_baseline_is_measured_beside(folder: Path) -> None:
    halved = np.diag([1, 1, 0.5]).astype(np.float32)
    run = measure(
        folder,
        {"dataset": "data.py:labelled", "metrics": ["max_abs", "accuracy"]},
        model=linear(halved),
        reference=linear(EYE),
        baseline=linear(EYE * 2),
    )
    exact = Comparison(5.0, Estimate(0.4, 0.4, 0.4), Estimate(-3.0, -3.0, -3.0), "exact")
    assert run.metrics["max_abs"] == Metric(2.0, better="lower", baseline=exact)
    accuracy = run.metrics["accuracy"]
    assert accuracy.baseline is not None
    assert accuracy.baseline == accuracy.reference
    assert accuracy.baseline.method == "McNemar's score interval over 4 examples, 0 better and 0 worse"


def test_labels_need_no_reference(folder: Path) -> None:
    run = measure(folder, {"dataset": "data.py:labelled", "metrics": ["accuracy"]}, model=linear(EYE))
    assert run.metrics["accuracy"].value == 0.75
    assert run.metrics["accuracy"].reference is None


def test_metrics_of_ones_own(folder: Path) -> None:
    params = {
        "dataset": "data.py:searched",
        "metrics": ["data.py:first_score", "data.py:largest_error", "data.py:candidates"],
        "better": {"largest_error": "lower"},
    }
    run = measure(folder, params, model=linear(EYE * 2), reference=linear(EYE))
    assert list(run.metrics) == list(metrics(build(Params, params)))
    score, error = run.metrics["first_score"], run.metrics["largest_error"]
    assert (score.value, score.noise, score.better) == (4.5, "sample", "higher")
    assert score.reference is not None
    assert score.reference.value == 2.25
    assert score.reference.method == "4 examples, too few for an interval, which takes 6"
    assert score.reference.ratio == Estimate(2.0, -math.inf, math.inf)
    assert error == Metric(
        5.0,
        better="lower",
        reference=Comparison(
            0.0,
            Estimate(*[UNBOUNDED] * 3),
            Estimate(5.0, 5.0, 5.0),
            "exact",
        ),
    )
    assert run.value("candidates") == 6.0


def two_outputs(bend: float) -> onnx.ModelProto:
    """`a = x`, `b = x + bend`, and integers `c`."""
    return parse(f"""
    <ir_version: 9, opset_import: ["": 20]>
    two (float[batch, 3] x) => (float[batch, 3] a, float[batch, 3] b, int64[batch] c) <float[1] bend = {{{bend}}}>
    {{ a = Identity (x)  b = Add (x, bend)  c = ArgMax <axis = 1, keepdims = 0> (x) }}
    """)


def test_the_worst_output_counts(folder: Path) -> None:
    params = {"dataset": "data.py:plain", "metrics": ["max_abs", "agreement"]}
    run = measure(folder, params, model=two_outputs(0.5), reference=two_outputs(0))
    assert {name: metric.value for name, metric in run.metrics.items()} == {"max_abs": 0.5, "agreement": 1.0}
    assert sorted(arrays(run)) == [
        "agreement[a]/model",
        "agreement[b]/model",
        "agreement[c]/model",
        "max_abs[a]/model",
        "max_abs[b]/model",
    ]


@pytest.mark.parametrize(
    ("metrics", "notes"),
    [
        (
            ["cosine", "max_abs"],
            ["no metric judges the output 'c': add `agreement`, which compares it with the reference's"],
        ),
        (
            ["cosine"],
            [
                "no metric judges the output 's': add `sqnr`, which compares it with the reference's",
                "no metric judges the output 'c': add `agreement`, which compares it with the reference's",
            ],
        ),
        (["max_abs", "agreement"], []),
        (["accuracy"], []),
        (["cosine", "data.py:first_score"], []),
    ],
)
def test_outputs_that_no_metric_judges_are_noted(folder: Path, metrics: list[str], notes: list[str]) -> None:
    pair = parse("""
    <ir_version: 9, opset_import: ["": 20]> g (float[n, 3] x) => (float[n, 3] y, float[n, 1] s, bool[n, 3] c)
    { y = Identity (x) axes = Constant <value_ints = [1]> () s = ReduceSum <keepdims = 1> (x, axes) c = IsInf (x) }
    """)
    run = measure(folder, {"dataset": "data.py:labelled", "metrics": metrics}, model=pair, reference=pair)
    assert list(run.notes) == notes


def test_named_outputs_are_shown_one_by_one(folder: Path) -> None:
    params = {"dataset": "data.py:plain", "metrics": ["max_abs"], "outputs": ["b", "a"]}
    run = measure(folder, params, model=two_outputs(0.5), reference=two_outputs(0))
    assert {name: metric.value for name, metric in run.metrics.items()} == {
        "max_abs": 0.5,
        "max_abs[b]": 0.5,
        "max_abs[a]": 0.0,
    }
    assert list(run.metrics) == list(metrics(build(Params, params)))


def arrays(run: StageRun) -> dict[str, list[float]]:
    with np.load(run.output / "examples.npz", allow_pickle=False) as archive:
        return {name: archive[name].tolist() for name in archive.files}


def test_errors_of_predicted_numbers(folder: Path) -> None:
    (folder / "prices.py").write_text(
        "import numpy as np\nimport orun\n"
        "def data():\n"
        "    x = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)\n"
        "    return orun.Dataset({'x': x}, labels=x.sum(1) * 2, fields={'half': np.repeat(['a', 'b'], 32)})\n",
        "utf-8",
    )
    params = {"dataset": "prices.py:data", "metrics": ["mae", "rmse", "r2"], "slices": ["half"]}
    twice, less = (linear(np.full((3, 1), weight, np.float32)) for weight in (2.0, 1.5))
    right = measure(folder, params, model=twice, reference=twice)
    wrong = measure(folder, params, model=less, reference=twice)
    better = {"mae": "lower", "rmse": "lower", "r2": "higher"}
    for run, values in ((right, (0.0, 0.0, 1.0)), (wrong, (0.7374817, 0.8906031, 0.9374721))):
        assert [run.value(name) for name in better] == pytest.approx(values, abs=1e-6)
    assert {name: metric.better for name, metric in wrong.metrics.items()} == {
        f"{name}{part}": better[name] for part in ("", "[half=a]", "[half=b]") for name in better
    }
    against = wrong.metrics["rmse"].reference
    assert against is not None
    assert against.value == pytest.approx(0.0, abs=1e-6)
    assert against.difference.low > 0.7


def test_errors_above_those_of_the_mean_are_noted(folder: Path) -> None:
    """A forecast of scaled values against labels in their own unit: no loss of the quantized model would show."""
    (folder / "loads.py").write_text(
        "import numpy as np\nimport orun\n"
        "def data():\n"
        "    x = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)\n"
        "    return orun.Dataset({'x': x}, labels=500 + 10 * x)\n"
        "def seasonal():\n"
        "    days = np.random.default_rng(0).normal([0, 100, 200], 10, size=(65, 3)).astype(np.float32)\n"
        "    return orun.Dataset({'x': days[:-1]}, labels=days[1:])\n"
        "def unscale(outputs, dataset):\n"
        "    return 500 + 10 * outputs['y']\n",
        "utf-8",
    )
    scaled = {"dataset": "loads.py:data", "metrics": ["mae"]}
    model, reference = linear(EYE * 0.5), linear(EYE)
    why = (
        "and that of the mean of the labels 9.636, so a comparison tells little: do labels and outputs have the same "
        "scale? `postprocess: file.py:function` can change the outputs'"
    )
    assert measure(folder, scaled, model=model).notes == (f"the rmse of the model is 500.2, {why}",)
    compared = measure(folder, scaled, model=model, reference=reference)
    assert compared.notes == (f"the rmse of the reference is 500.2, {why}",)
    unscaled = {**scaled, "postprocess": "loads.py:unscale"}
    assert measure(folder, unscaled, model=model, reference=reference).notes == ()
    seasonal = {**scaled, "dataset": "loads.py:seasonal"}  # the last day is a forecast, if not as good as the mean day
    assert measure(folder, seasonal, model=reference).notes == ()


def test_the_artifact_holds_every_example_and_is_the_same_each_time(folder: Path) -> None:
    params = {"dataset": "data.py:labelled", "metrics": ["max_abs", "accuracy"], "batch": 3}
    runs = [measure(folder, params, model=linear(EYE * 2), reference=linear(EYE)) for _ in range(2)]
    assert arrays(runs[0]) == {
        "accuracy/model": [1.0, 1.0, 1.0, 0.0],
        "accuracy/reference": [1.0, 1.0, 1.0, 0.0],
        "max_abs[y]/model": [3.0, 2.0, 4.0, 5.0],
    }
    stored = json.loads((runs[0].output / "metrics.json").read_text("utf-8"))
    assert stored["max_abs"] == {"value": 5.0, "better": "lower"}
    for name in ("examples.npz", "metrics.json"):
        assert (runs[0].output / name).read_bytes() == (runs[1].output / name).read_bytes()
    with zipfile.ZipFile(io.BytesIO((runs[0].output / "examples.npz").read_bytes())) as archive:
        assert {member.date_time for member in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_samples_are_spread_over_the_data(folder: Path) -> None:
    params = {"dataset": "data.py:labelled", "metrics": ["accuracy"], "samples": 2}
    run = measure(folder, params, model=linear(EYE))
    assert arrays(run) == {"accuracy/model": [1.0, 0.0]}  # examples 0 and 3


def test_texts_of_different_lengths(folder: Path) -> None:
    (folder / "ragged.py").write_text(
        "import numpy as np\nimport orun\n"
        "def data():\n"
        "    return orun.Dataset({'x': [np.arange(n, dtype=np.float32)[:, None] for n in (3, 1, 2, 3)]})\n"
        "def lengths(outputs, dataset):\n"
        "    return [len(output) for output in outputs['y']]\n",
        "utf-8",
    )
    lines = parse(
        '<ir_version: 9, opset_import: ["": 20]> g (float[batch, length, 1] x) => (float[batch, length, 1] y) '
        "{ y = Neg (x) }"
    )
    params = {"dataset": "ragged.py:data", "metrics": ["max_abs", "ragged.py:lengths"], "batch": 2}
    run = measure(folder, params, model=lines, reference=lines)
    assert arrays(run)["lengths/model"] == [3.0, 1.0, 2.0, 3.0]
    assert run.value("max_abs") == 0.0


def test_examples_of_a_model_that_takes_the_time_first(folder: Path) -> None:
    """Sums along the time, which would go on from one example into the next if they were joined there."""
    (folder / "timed.py").write_text(
        "import numpy as np\nimport orun\n"
        "def data():\n"
        "    return orun.Dataset({'x': [np.ones((n, 1, 2), np.float32) for n in (3, 1, 2, 3)]})\n"
        "def last(outputs, dataset):\n"
        "    return [output[-1, 0, 0] for output in outputs['y']]\n",
        "utf-8",
    )
    sums = parse("""
    <ir_version: 9, opset_import: ["": 20]>
    g (float[time, batch_size, 2] x) => (float[time, batch_size, 2] y)
    <int64 first = {0}> { y = CumSum (x, first) }
    """)
    run = measure(folder, {"dataset": "timed.py:data", "metrics": ["timed.py:last"], "batch": 2}, model=sums)
    assert arrays(run)["last/model"] == [3.0, 1.0, 2.0, 3.0]


def test_runs_on_the_target(folder: Path) -> None:
    params = {"dataset": "data.py:plain", "metrics": ["data.py:largest_error"]}
    target = Target("npu", (Provider("NonsenseExecutionProvider"),))
    with pytest.raises(UsageError) as error:
        measure(folder, params, target, model=linear(EYE))
    assert error.value.problem == "target 'npu': NonsenseExecutionProvider is not in this build of ONNX Runtime"


def test_an_output_that_is_not_finite_fails_always(folder: Path) -> None:
    overflow = EYE.copy()
    overflow[2, 2] = np.inf
    assert refusal(
        folder,
        {"dataset": "data.py:labelled", "metrics": ["accuracy"]},
        model=linear(overflow),
    ) == ("output 'y' of the model is not finite for example 0\n  1 NaN and 0 infinite among its 3 values")
    assert refusal(
        folder,
        {"dataset": "data.py:searched", "metrics": ["mrr"], "batch": 4},
        model=linear(EYE),
        reference=linear(overflow),
    ) == ("output 'y' of the reference is not finite for example 0\n  1 NaN and 0 infinite among its 3 values")


def test_values_that_are_missing_in_the_data(folder: Path) -> None:
    """A model answers such an example with what is not finite, or as another one where it rounds to integers."""
    params = {"dataset": "data.py:gaps", "metrics": ["accuracy"]}
    assert refusal(folder, params, model=linear(EYE)) == (
        "output 'y' of the model is not finite for example 2\n  3 NaN and 0 infinite among its 3 values\n"
        "  the example itself has inputs that are not finite: x"
    )
    rounding = parse("""
    <ir_version: 9, opset_import: ["": 20]>
    g (float[batch, 3] x) => (float[batch, 3] y) <float scale = {0.1}, uint8 zero = {0}>
    { q = QuantizeLinear (x, scale, zero)  y = DequantizeLinear (q, scale, zero) }
    """)
    assert refusal(folder, params, model=rounding) == (
        "example 2 of the 4 used holds NaN in 'x', which the model treats as a number\n"
        "  it quantizes its values, and an integer cannot say that one is missing: the answer would be of another "
        "example\n  1 of 4 examples hold one\n"
        "  hint: put a value in its place, or leave the example out, in what makes the dataset"
    )
    assert measure(folder, params | {"samples": 2}, model=rounding).value("accuracy") == 1
    imputing = parse("""
    <ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 1]>
    g (float[batch, 3] x) => (float[batch, 3] y) <float scale = {0.1}, uint8 zero = {0}>
    {
      whole = ai.onnx.ml.Imputer <imputed_value_floats = [0.5, 0.5, 0.5], replaced_value_float = 0.0> (x)
      q = QuantizeLinear (whole, scale, zero)  y = DequantizeLinear (q, scale, zero)
    }
    """)
    assert refusal(folder, params, model=imputing).startswith("example 2 of the 4 used holds NaN in 'x'")
    next(item for item in imputing.graph.node[0].attribute if item.name == "replaced_value_float").f = np.nan
    assert measure(folder, params, model=imputing).value("accuracy") == 1
    recurrent = parse("""
    <ir_version: 9, opset_import: ["": 20]>
    g (float[batch, 3] x) => (float[batch, 3] y)
    <float[1, 9, 3] w = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9,
                         0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9},
     float[1, 9, 3] r = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9,
                         0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}, int64[1] zero = {0}>
    { step = Unsqueeze (x, zero)  all, last = GRU <hidden_size = 3> (step, w, r)  y = Squeeze (last, zero) }
    """)
    assert refusal(folder, params, model=recurrent) == (
        "example 2 of the 4 used holds NaN in 'x', which the model treats as a number\n"
        "  ONNX Runtime's recurrent operators turn NaN into a number, where the framework answers NaN\n"
        "  1 of 4 examples hold one\n"
        "  hint: put a value in its place, or leave the example out, in what makes the dataset"
    )


def test_an_example_of_no_length_that_would_end_the_process(folder: Path) -> None:
    model = parse("""
    <ir_version: 9, opset_import: ["": 20]>
    g (float[batch, steps, 3] x) => (float[batch, 1] y)
    <float[1, 3, 3] w = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9},
     float[1, 3, 1] r = {0.1, 0.2, 0.3}, int64[1] zero = {0}>
    { steps = Transpose <perm = [1, 0, 2]> (x)  all, last = GRU <hidden_size = 1> (steps, w, r)
      y = Squeeze (last, zero) }
    """)
    params = {"dataset": "data.py:windows", "metrics": ["data.py:first_score"]}
    assert refusal(folder, params, model=model) == (
        "example 1 of data.py:windows has no values in 'x': its shape is [0, 3]\n"
        "  the model has a GRU, on which ONNX Runtime ends the process then\n"
        "  hint: leave such examples out, or pad them to one step"
    )


KEEPS_TYPES = "`optimize/float16`, and `keep_io_types=True` of other converters, keep float32 inputs and outputs"


@pytest.mark.parametrize(
    ("changed", "form", "hint"),
    [
        (linear(EYE[:, :2]), "float32 [1, 2]", "make the model keep its reference's"),
        (linear(EYE, to=TensorProto.FLOAT16), "float16 [1, 3]", KEEPS_TYPES),
    ],
)
def test_shapes_and_types_are_part_of_equality(folder: Path, changed: onnx.ModelProto, form: str, hint: str) -> None:
    params = {"dataset": "data.py:plain", "metrics": ["cosine"]}
    assert refusal(folder, params, model=changed, reference=linear(EYE)) == (
        "output 'y' of the model differs in form from the reference's\n"
        f"  {form}, and float32 [1, 3] in the reference, for example 0\n"
        f"  hint: outputs are compared only if shapes and types are equal: {hint}"
    )


def test_models_that_take_other_types_of_an_input(folder: Path) -> None:
    """A dataset of another type would only move the failure to the other model."""
    half = parse(
        '<ir_version: 9, opset_import: ["": 20]> '
        "half (float16[batch, 3] x) => (float[batch, 3] y) { y = Cast <to = 1> (x) }"
    )
    params = {"dataset": "data.py:plain", "metrics": ["cosine"]}
    assert refusal(folder, params, model=linear(EYE), reference=half) == (
        "the reference does not run on example 0\n"
        "  [ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Unexpected input data type. Actual: (tensor(float)) , expected: "
        "(tensor(float16))\n"
        "  x: fed float32 [1, 3], takes float16 ['batch', 3]\n"
        "  hint: the reference takes float16, and the model float32: give both one type, by `types` of optimize/edit; "
        f"{KEEPS_TYPES}"
    )


def test_outputs_go_by_name(folder: Path) -> None:
    params = {"dataset": "data.py:plain", "metrics": ["cosine"]}
    rename = (
        "  hint: the models share no output: give their outputs one name, with `outputs: [NAME]` of a convert stage, "
        "or `rename` of optimize/edit"
    )
    other = linear(EYE, output="z")
    assert refusal(folder, params, model=linear(EYE), reference=other) == (
        f"the reference has no output 'y'\n  it has z\n{rename}"
    )
    assert refusal(folder, params, model=linear(EYE), reference=linear(EYE), **{"reference.last": other}) == (
        f"the reference `last` has no output 'y'\n  it has z\n{rename}"
    )


@pytest.mark.parametrize(
    ("dataset", "metrics", "params", "message"),
    [
        (
            "plain",
            ["cosine"],
            {},
            (
                "cosine compares with a reference, and none is connected\n"
                "  hint: connect one: needs: {model: ..., reference: ...}"
            ),
        ),
        (
            "plain",
            ["accuracy"],
            {},
            (
                "accuracy needs labels, and the dataset data.py:plain has none\n"
                "  it has x\n"
                "  hint: return them: orun.Dataset(inputs, labels)"
            ),
        ),
        (
            "plain",
            ["data.py:plain"],
            {},
            (
                "data.py:plain takes other arguments\n"
                "  it is called as plain(outputs, dataset), and is plain() at data.py:7"
            ),
        ),
        (
            "labelled",
            ["mrr"],
            {},
            (
                "mrr needs candidates, and the dataset has none\n"
                "  hint: return orun.Dataset(inputs, labels, candidates) from the dataset's function"
            ),
        ),
        (
            "misnamed",
            ["data.py:first_score"],
            {},
            (
                "data.py:misnamed has no values for x, which the model takes\n"
                "  it has image\n"
                "  hint: name the arrays of the dataset after the model's inputs"
            ),
        ),
        (
            "forgotten",
            ["data.py:first_score"],
            {},
            (
                "data.py:forgotten must return an orun.Dataset, not a ndarray\n"
                "  hint: wrap the arrays: orun.Dataset({'input name': array})"
            ),
        ),
        (
            "plain",
            ["data.py:too_many"],
            {},
            (
                "the metric too_many must return one number, or one for each of the 4 examples\n"
                "  it returned an array of shape [2]"
            ),
        ),
        (
            "plain",
            ["data.py:nothing"],
            {},
            "the metric nothing must return one number, or one for each example\n  it returned nothing",
        ),
        *(
            (
                "plain",
                [f"data.py:{name}"],
                {},
                f"the metric {name} must return one number, or one for each example\n  it returned text",
            )
            for name in ("text", "texts", "texts_of_objects")
        ),
        (
            "plain",
            ["data.py:named"],
            {},
            "the metric named must return one number, or one for each example\n  it returned a dict",
        ),
        (
            "plain",
            ["data.py:not_a_number"],
            {},
            (
                "the metric not_a_number returned nan\n"
                "  NaN says that it is not defined, and then nothing is left to measure\n"
                "  hint: return a number for some of the examples, or take the metric out of `metrics`"
            ),
        ),
        (
            "plain",
            ["data.py:never_defined"],
            {},
            (
                "the metric never_defined returned nan for every example\n"
                "  NaN says that it is not defined, and then nothing is left to measure\n"
                "  hint: return a number for some of the examples, or take the metric out of `metrics`"
            ),
        ),
        (
            "plain",
            ["data.py:undefined"],
            {},
            (
                "the metric undefined returned inf for example 3\n"
                "  hint: return NaN where it is not defined, as a division by 0: such examples are left out"
            ),
        ),
        (
            "plain",
            ["data.py:first_score", "other.py:first_score"],
            {},
            "metrics: first_score is named twice\n  hint: rename the function, or drop one",
        ),
        (
            "plain",
            ["data.py:first_score"],
            {"better": {"first": "lower"}},
            "better: first is not a metric of your own",
        ),
        (
            "plain",
            ["data.py:first_score"],
            {"outputs": ["z"]},
            "the model has no output 'z'\n  it has y\n  hint: name outputs that all models have: `outputs: [y]`",
        ),
    ],
)
def test_what_cannot_be_measured_is_refused(
    folder: Path, dataset: str, metrics: list[str], params: Mapping[str, object], message: str
) -> None:
    given_params = {"dataset": f"data.py:{dataset}", "metrics": metrics, **params}
    assert refusal(folder, given_params, model=linear(EYE)) == message


def test_examples_and_slices_for_which_a_metric_is_not_defined(folder: Path) -> None:
    """The labels are 0, 1, 2 and 1, and the model answers 0, 1, 2 and 0."""
    metrics = ["data.py:where_right", "data.py:of_ones"]
    params = {"dataset": "data.py:labelled", "metrics": metrics, "slices": ["label"], "resamples": 10}
    run = measure(folder, params, model=linear(EYE), reference=linear(EYE))
    assert {name: metric.value for name, metric in run.metrics.items()} == {
        "where_right": 2 / 3,
        "of_ones": 0.5,
        "where_right[label=1]": 0.5,
        "where_right[label=2]": 1.0,
        "of_ones[label=1]": 0.5,
    }
    compared = run.metrics["where_right"].reference
    assert compared is not None
    assert compared.count == 3
    assert run.notes == (
        "where_right leaves out 1 of 4 examples, for which it returned nan",
        "not measured, because where_right is not defined there: where_right[label=0]",
        "not measured, because of_ones is not defined there: of_ones[label=0], of_ones[label=2]",
    )


def test_a_model_that_does_not_take_the_data(folder: Path) -> None:
    params = {"dataset": "data.py:integers", "metrics": ["data.py:first_score"]}
    assert refusal(folder, params, model=linear(EYE)) == (
        "the model does not run on example 0\n"
        "  [ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Unexpected input data type. Actual: (tensor(int64)) , expected: "
        "(tensor(float))\n"
        "  x: fed int64 [1, 3], takes float32 ['batch', 3]\n"
        "  hint: in the dataset, x: values.astype(np.float32); of files, `types: {x: float32}`"
    )


def test_what_the_model_is_not_fed_is_noted(folder: Path) -> None:
    (folder / "more.py").write_text(
        "import numpy as np, orun\n"
        "def data():\n"
        "    x = np.arange(9, dtype=np.float32).reshape(3, 3)\n"
        "    return orun.Dataset({'x': x, 'mask': x > 1}, labels=[0, 1, 2])\n"
        "def mask(outputs, dataset):\n"
        "    return dataset.inputs['mask'].mean(axis=1)\n",
        "utf-8",
    )
    run = measure(folder, {"dataset": "more.py:data", "metrics": ["accuracy"]}, model=linear(EYE))
    assert run.notes == ("the model is not fed mask, which the dataset has: no model has such an input (inputs: x)",)
    own = measure(folder, {"dataset": "more.py:data", "metrics": ["more.py:mask"]}, model=linear(EYE))
    assert own.notes == ()
    np.savez(folder / "rows.npz", x=np.eye(3, dtype=np.float32), churn=np.arange(3))
    params = {"dataset": "rows.npz", "metrics": ["cosine"]}
    (note,) = measure(folder, params, model=linear(EYE), reference=linear(EYE)).notes
    assert note == (
        "the model is not fed churn, which the dataset has: no model has such an input (inputs: x); if these are the "
        "labels, say so beside its path: `labels: churn`"
    )


def test_an_order_of_class_folders_that_is_assumed_is_noted(folder: Path) -> None:
    for name, colour in (("red", (255, 0, 0)), ("green", (0, 255, 0)), ("blue", (0, 0, 255))):
        (folder / "photos" / name).mkdir(parents=True)
        Image.new("RGB", (1, 1), colour).save(folder / "photos" / name / "pixel.png")
    images = {"input": "x", "size": [1, 1], "resize": None, "mean": [0.0] * 3, "std": [1.0] * 3}
    pixels = parse(
        '<ir_version: 9, opset_import: ["": 17]> g (float[batch, 3, 1, 1] x) => (float[batch, 3] y) { y = Flatten(x) }'
    )
    source: dict[str, object] = {"path": "photos", "images": images}
    run = measure(folder, {"dataset": source, "metrics": ["accuracy"]}, model=pixels)
    assert run.value("accuracy") == 1 / 3
    (note,) = run.notes
    assert note == (
        "labels number the 3 class folders of photos in order of names, from blue to red. If the model's scores are "
        "in another order, name it: `classes: [...]`"
    )
    classes = ["red", "green", "blue"]
    run = measure(folder, {"dataset": {**source, "classes": classes}, "metrics": ["accuracy"]}, model=pixels)
    assert run.value("accuracy") == 1
    assert run.notes == ()
    for number, name in enumerate(classes):
        (folder / "photos" / name).rename(folder / "photos" / str(number))
    assert measure(folder, {"dataset": source, "metrics": ["accuracy"]}, model=pixels).notes == ()


def test_class_folders_that_are_not_as_many_as_the_scores_are_noted(folder: Path) -> None:
    for name, colour in (("0", (255, 0, 0)), ("2", (0, 0, 255))):
        (folder / "photos" / name).mkdir(parents=True)
        Image.new("RGB", (1, 1), colour).save(folder / "photos" / name / "pixel.png")
    images = {"input": "x", "size": [1, 1], "resize": None, "mean": [0.0] * 3, "std": [1.0] * 3}
    source: dict[str, object] = {"path": "photos", "images": images}
    pixels = parse(
        '<ir_version: 9, opset_import: ["": 17]> g (float[batch, 3, 1, 1] x) => (float[batch, 3] y) { y = Flatten(x) }'
    )
    params: dict[str, object] = {"dataset": source, "metrics": ["accuracy"]}
    run = measure(folder, params, model=pixels)
    assert run.value("accuracy") == 0.5
    (note,) = run.notes
    assert note == (
        "photos has 2 class folders, and the model has 3 scores. Labels number the folders in order of names, so a "
        "missing folder shifts them: name all classes in the order of the scores, `classes: [...]`"
    )
    (folder / "photos" / "1").mkdir()
    (folder / "photos" / "1" / "photo.heic").write_bytes(b"HEIF")
    (folder / "photos" / "1" / "notes.txt").write_bytes(b"ours")
    (ignored, note) = measure(folder, params, model=pixels).notes
    assert ignored == (
        "photos has 1 file of suffixes that are not read as images (.heic), such as 1/photo.heic: convert images to "
        ".png or .jpg"
    )
    assert note == (
        "photos has 2 class folders, and the model has 3 scores. No images are in 1. Labels number the folders in "
        "order of names, so a missing folder shifts them: name all classes in the order of the scores, "
        "`classes: [...]`"
    )
    (folder / "photos" / "1" / "photo.heic").unlink()
    named = measure(folder, params | {"dataset": source | {"classes": ["0", "1", "2"]}}, model=pixels)
    assert (named.value("accuracy"), named.notes) == (1, ())
    own = measure(folder, params | {"metrics": ["cosine"]}, model=pixels, reference=pixels)
    assert own.notes == ()
    with pytest.raises(UsageError) as caught:
        measure(folder, params | {"dataset": source | {"path": "photos/2"}}, model=pixels)
    assert str(caught.value) == (
        "accuracy needs labels, and the dataset photos/2 has none\n"
        "  it has x\n"
        "  hint: put the images of each class into a folder of its own, or name a function: dataset: data.py:function"
    )


@pytest.mark.parametrize(
    ("classes", "note"),
    [
        (["a", "b"], "names 2 classes, and the model has 3 scores"),
        (["a", "b", "c"], ""),
        (["a", "b", "c", "d"], "names 4 classes, and the model has 3 scores"),
    ],
)
def test_classes_of_a_table_that_are_not_as_many_as_the_scores_are_noted(
    folder: Path, classes: list[str], note: str
) -> None:
    (folder / "t.csv").write_text("p,q,r,labels\n3,1,0,a\n0,2.5,1,b\n", "utf-8")
    source = {"path": "t.csv", "inputs": {"x": "*"}, "types": {"x": "float32"}, "classes": classes}
    rest = ". Labels number the names in their order, so a missing name shifts them: name all classes in the order of "
    run = measure(folder, {"dataset": source, "metrics": ["accuracy"]}, model=linear(EYE))
    assert run.notes == ((f"`classes` of t.csv {note}{rest}the scores",) if note else ())


def test_copies_among_the_examples_are_noted_where_they_count(folder: Path) -> None:
    (folder / "copies.py").write_text(
        "import numpy as np, orun\n"
        "def data():\n"
        "    return orun.Dataset({'x': np.eye(3, dtype=np.float32)[[0, 1, 2, 2]]}, labels=[0, 1, 2, 2])\n",
        "utf-8",
    )
    run = measure(folder, {"dataset": "copies.py:data", "metrics": ["accuracy"]}, model=linear(EYE))
    (note,) = run.notes
    assert note.startswith("1 of 4 examples repeat other examples, label and all. Each counts as evidence, so ")
    params = {"dataset": "copies.py:data", "metrics": ["cosine"]}
    assert measure(folder, params, model=linear(EYE), reference=linear(EYE)).notes == ()


STREAM = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[n, 3] x, float[n, 3] before, float[n, 2] scale) => (float[n, 3] y, float[n, 3] after)
{ after = Add (x, before) y = Softmax (after) wide = ReduceSum (scale) }
"""


def test_inputs_that_never_change_are_noted(folder: Path) -> None:
    (folder / "stream.py").write_text(
        "import numpy as np, orun\n"
        "X = np.eye(3, dtype=np.float32)\n"
        "def start():\n"
        "    return orun.Dataset({'x': X, 'before': X * 0, 'scale': np.full((3, 2), 0.5, np.float32)})\n"
        "def ragged():\n"
        "    scale = [np.ones(2, np.float32), np.full(2, np.nan, np.float32), np.ones(2, np.float32)]\n"
        "    return orun.Dataset({'x': X, 'before': X, 'scale': scale})\n"
        "def one():\n"
        "    return orun.Dataset({'x': X[:1], 'before': X[:1], 'scale': np.ones((1, 2), np.float32)})\n",
        "utf-8",
    )

    def notes(function: str) -> tuple[str, ...]:
        stream = parser.parse_model(STREAM)
        params = {"dataset": f"stream.py:{function}", "metrics": ["max_abs"]}
        return measure(folder, params, model=stream, reference=stream).notes

    (note,) = notes("start")
    assert note == (
        "before (0), scale (0.5) never change in the 3 examples, so the model is judged at those values alone. "
        "Outputs have the type and shape of before, as states have: take chunks from the middle of a run, with the "
        "states that the model had there"
    )
    assert notes("one") == ("scale (1) never changes in the one example, so the model is judged at that value alone",)
    assert notes("ragged") == ()


def test_examples_that_bring_a_batch_axis_along(folder: Path) -> None:
    (folder / "batched.py").write_text(
        "import numpy as np, orun\n"
        "def data():\n"
        "    return orun.Dataset({'x': [np.zeros((1, 3), np.float32), np.ones((1, 3), np.float32)]}, labels=[0, 1])\n",
        "utf-8",
    )
    message = refusal(folder, {"dataset": "batched.py:data", "metrics": ["accuracy"]}, model=linear(EYE))
    assert message.splitlines()[-2:] == [
        "  x: fed float32 [1, 1, 3], takes float32 ['batch', 3]",
        (
            "  hint: each example of x has a batch axis of 1, and batching adds another: give each example without "
            "it, `values[0]`, or all examples as one array `[n, ...]`"
        ),
    ]
    windows = parse(
        '<ir_version: 9, opset_import: ["": 20]> g (float[batch, 2, 3] x) => (float[batch, 2, 3] y) { y = Neg (x) }'
    )
    message = refusal(folder, {"dataset": "data.py:labelled", "metrics": ["accuracy"]}, model=windows)
    assert message.splitlines()[-1] == (
        "  hint: an example of x is [3], and the model takes [2, 3]: a row of a table is one example, so make windows "
        "in a function, or store them in a .npz"
    )


def test_scores_that_are_not_the_first_output(folder: Path) -> None:
    """The places of what is large, of which each example has another number, stand before the scores."""
    places = parse("""
    <ir_version: 9, opset_import: ["": 20]>
    g (float[batch, 3] x) => (int64[1, large] places, float[batch, 3] scores) <float limit = {1}>
    {
      large = Greater (x, limit)  where = NonZero (large)
      rows, places = Split <axis = 0, num_outputs = 2> (where)  scores = Identity (x)
    }
    """)
    params = {"dataset": "data.py:labelled", "metrics": ["accuracy"]}
    assert refusal(folder, params, model=places) == (
        "task metrics need outputs of one shape for all examples\n"
        "  the output that they judge, the first, has 2 shapes, such as [1] and [2]\n"
        "  hint: if another output holds the scores, name it first: `outputs: [NAME]`; else write a custom metric: "
        "`metrics: [file.py:function]`"
    )
    named = measure(folder, {**params, "outputs": ["scores"]}, model=places)
    assert named.value("accuracy") == 0.75


def test_what_a_metric_of_ones_own_is_called_with_is_told_where_it_fails(folder: Path) -> None:
    with pytest.raises(AttributeError) as caught:
        measure(folder, {"dataset": "data.py:plain", "metrics": ["data.py:swapped"]}, model=linear(EYE))
    assert caught.value.__notes__ == ["swapped(outputs, dataset): outputs has, by name, y; dataset inputs, labels"]


@pytest.mark.parametrize(
    "change",
    [
        "outputs['y'] -= 1",
        "outputs['y'].sort()",
        "dataset.labels //= 2",
        "dataset.labels[:] = 0",
        "dataset.inputs['x'][0] = 0",
        "dataset.fields['camera'][0] = 'b'",
        "dataset.candidates['x'] *= 2",
    ],
)
@pytest.mark.parametrize("as_postprocess", [False, True])
def test_a_function_cannot_change_what_other_metrics_read(folder: Path, change: str, *, as_postprocess: bool) -> None:
    (folder / "own.py").write_text(
        "import numpy as np, orun\n"
        "def data():\n"
        "    x = np.eye(3, dtype=np.float32)\n"
        "    return orun.Dataset({'x': x}, np.arange(3), {'x': x.copy()}, {'camera': ['a', 'b', 'a']})\n"
        f"def coarse(outputs, dataset):\n    {change}\n    return outputs['y'][:, 0]\n",
        "utf-8",
    )
    own = {"metrics": ["own.py:coarse"]}
    params = {"metrics": ["accuracy"], "postprocess": "own.py:coarse"} if as_postprocess else own
    with pytest.raises(ValueError, match="read-only") as caught:
        measure(folder, {"dataset": "own.py:data", **params}, model=linear(EYE))
    assert caught.value.__notes__ == ["other metrics read what coarse is given: let it change a copy, `values.copy()`"]


@pytest.mark.parametrize(("to", "shown"), [(TensorProto.BFLOAT16, "bfloat16"), (TensorProto.FLOAT8E5M2, "float8e5m2")])
def test_an_output_that_numpy_cannot_hold_is_no_silent_pass(folder: Path, to: int, shown: str) -> None:
    params = {"dataset": "data.py:labelled", "metrics": ["accuracy"]}
    assert refusal(folder, params, model=linear(EYE, to=to)) == (
        f"output 'y' of the model is a tensor({shown}), which cannot be judged\n"
        "  hint: name the outputs to judge in `outputs`, or let the model cast this one to float"
    )


def test_classes_have_no_angle(folder: Path) -> None:
    params = {"dataset": "data.py:plain", "metrics": ["cosine"], "outputs": ["c"]}
    assert refusal(folder, params, model=two_outputs(0), reference=two_outputs(0)) == (
        "no output can be compared by cosine\n  c is tensor(int64)"
    )


def test_texts_have_no_angle(folder: Path) -> None:
    named = parse(
        '<ir_version: 9, opset_import: ["" : 20]> g (float[n, 3] x) => (string[n, 3] c) { c = Cast <to = 8> (x) }'
    )
    params = {"dataset": "data.py:plain", "metrics": ["cosine"]}
    assert refusal(folder, params, model=named, reference=named) == (
        "no output can be compared by cosine\n  c is tensor(string)"
    )


def test_an_output_without_a_batch_axis(folder: Path) -> None:
    total = parse(
        '<ir_version: 9, opset_import: ["": 20]> g (float[n, 3] x) => (float y) { y = ReduceSum <keepdims = 0> (x) }'
    )
    params = {"dataset": "data.py:plain", "metrics": ["data.py:first_score"]}
    assert refusal(folder, params, model=total) == (
        "output 'y' of the model has no batch axis: its shape is [] for a batch of 1\n"
        "  hint: name the outputs with a batch axis in `outputs`; or let the model return this one with a batch axis "
        "of 1, `output[None]`"
    )


def test_inputs_without_an_axis_for_the_batch(tmp_path: Path) -> None:
    """A scalar and a fixed first axis above 1 are fed as they are, an example at a time, and so are outputs judged."""
    text = """
    <ir_version: 9, opset_import: ["" : 20]>
    g (float[batch, 3] x, float t, float[2, 3] table) => (float[batch, 3] y, float u, float[2, 3] v)
    { y = %s(x, t)  u = %s(t)  v = Neg(table) }
    """
    models = {"model": parse(text % ("Mul", "Neg")), "reference": parse(text % ("Div", "Neg"))}
    run = measure(tmp_path, {"metrics": ["cosine", "max_abs"], "samples": 3, "batch": 2}, **models)
    assert run.value("cosine.min") == pytest.approx(1)
    dataset = """
import numpy as np
import orun

def rows():
    random = np.random.default_rng(0)
    x, table = random.normal(size=(3, 3)).astype(np.float32), random.normal(size=(3, 2, 3)).astype(np.float32)
    return orun.Dataset({"x": x, "t": np.array([2, 4, 8], np.float32), "table": table}, labels=[0, 1, 2])

def shapes(outputs, dataset):
    assert {name: values.shape for name, values in outputs.items()} == {"y": (3, 3), "u": (3,), "v": (3, 2, 3)}
    return outputs["y"][:, 0] / dataset.inputs["x"][:, 0]
"""
    (tmp_path / "rows.py").write_text(dataset)
    run = measure(tmp_path, {"dataset": "rows.py:rows", "metrics": ["max_abs", "rows.py:shapes"], "batch": 2}, **models)
    assert run.value("shapes") == pytest.approx((2 + 4 + 8) / 3)


def test_the_schema_offers_what_the_engine_knows() -> None:
    (metrics,) = (param for param in list_params(Params) if param.name == "metrics")
    known, code = metrics.type.items[0].items
    assert set(known.choices) == {*FIDELITY, *TASK, *READ}
    assert code.name == "code"


def test_segmentation_with_the_classes_on_the_second_axis(tmp_path: Path) -> None:
    """Two pictures of two pixels: the first of two classes is right but for one pixel."""
    text = '<ir_version: 9, opset_import: ["" : 20]> g (float[n, 2, 2] x) => (float[n, 2, 2] y) { y = Identity (x) }'
    scores = np.array([[[0.9, 0.9], [0.1, 0.1]], [[0.2, 0.6], [0.8, 0.4]]], np.float32)
    np.savez(tmp_path / "data.npz", x=scores, labels=np.array([[0, 0], [1, 1]]))
    ports = {"model": artifact(tmp_path, parse(text)), "reference": artifact(tmp_path, parse(text))}
    params = {"metrics": ["iou"], "dataset": "data.npz", "class_axis": 1}
    measured = run_stage("measure/accuracy", tmp_path, params, inputs=ports).metrics["iou"]
    assert measured.value == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert (measured.unit, measured.better) == ("ratio", "higher")


def test_rankings_by_relevance(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.array([[3, 2, 1], [1, 2, 3.0]]), labels=np.array([[0, 1, 0], [0, 1, 2]]))
    ports = {"model": artifact(tmp_path, linear(EYE))}
    params = {"metrics": ["ndcg", "ndcg_at_10"], "dataset": "data.npz"}
    measured = run_stage("measure/accuracy", tmp_path, params, inputs=ports).metrics
    assert measured["ndcg"].value == measured["ndcg_at_10"].value == pytest.approx((1 / np.log2(3) + 1) / 2)


def test_files_and_made_up_examples(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.array([[1, 0, 0], [0, 1, 0], [1, 0, 0.5]]), labels=np.arange(3))
    ports = {"model": artifact(tmp_path, linear(EYE)), "reference": artifact(tmp_path, linear(EYE * 2))}
    metrics = ["accuracy", "f1", "auc", "average_precision", "relative"]
    read = run_stage("measure/accuracy", tmp_path, {"metrics": metrics, "dataset": "data.npz"}, inputs=ports)
    assert read.value("accuracy") == pytest.approx(2 / 3)
    assert read.value("f1") == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert read.value("auc") == pytest.approx((0.75 + 1 + 1) / 3)
    assert read.value("average_precision") == pytest.approx((0.5 + 1 + 1) / 3)
    assert read.value("relative") == 0.5
    source = {"path": "data.npz", "inputs": {"x": "x"}, "labels": "labels"}
    again = run_stage("measure/accuracy", tmp_path, {"metrics": metrics, "dataset": source}, inputs=ports)
    assert again.metrics == read.metrics
    run = run_stage("measure/accuracy", tmp_path, {"metrics": ["cosine", "kl"]}, inputs=ports)
    assert run.value("cosine.min") == pytest.approx(1)
    assert run.value("kl") > 0
    assert run.progress[-1][:2] == (64, 64)
    assert run.notes == ("the examples are made up, not data: name some of yours, `dataset: data.py:function`",)
