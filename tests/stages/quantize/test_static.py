from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, numpy_helper, parser

from orun.core.targets import Target
from orun.environment import processor
from orun.errors import StageFailed, UnknownName, UsageError
from orun.stages._graph import io as onnx_io
from tests.processors import exact_sums
from tests.stages.conftest import MODULES
from tests.stages.models import ADD, SHARED_SIZES, SHARED_WEIGHTS, WORDY, convolution, parse, store_weights, weights_of
from tests.stages.support import StageRun, answers, artifact, run_stage

VERSION = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
OPENS_FLOAT8 = VERSION >= (1, 32)  # at every level; before, with quantization's operators off


def quantize(folder: Path, model: Path, dataset: str = "images", **params: Any) -> StageRun:
    options = {"dataset": f"examples.py:{dataset}", **params}
    return run_stage("quantize/static", folder, options, inputs={"model": model}, root=MODULES)


def operators(result: StageRun) -> Counter[str]:
    return Counter(result.operators)


def noise(path: Path, before: Path, feed: dict[str, np.ndarray[Any, Any]]) -> float:
    """Return the RMS error relative to the output; measured in float on processors that saturate integer sums."""
    options = onnxruntime.SessionOptions()
    if processor.saturates():
        options.add_session_config_entry("session.disable_quant_qdq", "1")
    right, values = (
        onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"]).run(None, feed)[0]
        for file in (before, path)
    )
    return float(np.sqrt(np.mean((values - right) ** 2) / np.mean(right**2)))


WEIGHTED = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[n, 4] x) => (float[n, 2] y)
<float[4, 2] w = {0.1, -0.2, 0.3, 0.4, 0.5, -0.6, 0.7, 0.8}> { y = MatMul (x, w) }
"""
MASKED = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[n, 4] x) => (float[n, 4] y)
<float[4, 4] w = {1, 2, 3, 4, -1, 2, 1, 2, 0.5, 0.2, 0.3, 0.1, 1, 1, -1, 2}>
{
  scores = MatMul (x, w)
  limit = Constant <value = float {0.5}> ()
  shown = Less (x, limit)
  none = Constant <value = float {0.0}> ()
  away = Log (none)
  hidden = Where (shown, scores, away)
  y = Softmax (hidden)
}
"""
IMAGES = {"image": np.random.default_rng(0).standard_normal((8, 3, 8, 8)).astype(np.float32)}  # as in examples.py


def test_made_up_ranges_are_said(tmp_path: Path) -> None:
    result = run_stage("quantize/static", tmp_path, {}, inputs={"model": artifact(tmp_path, parse(WEIGHTED))})
    assert result.notes == (
        "ranges come from made-up inputs, not from data: name typical inputs, `dataset: data.py:function`",
    )


def test_recurrent_operators_that_stay_in_float_are_noted(tmp_path: Path) -> None:
    model = parser.parse_model("""
    <ir_version: 9, opset_import: ["": 20]>
    g (float[time, batch, 2] x) => (float[time, batch, 4] z)
    { all = LSTM <hidden_size = 2> (x, w, r)  axes = Constant <value = int64[1] {1}> ()
      flat = Squeeze (all, axes)  z = MatMul (flat, head) }
    """)
    shapes = {"w": (1, 8, 2), "r": (1, 8, 2), "head": (2, 4)}
    random = np.random.default_rng(0)
    weights = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    model.graph.initializer.extend(numpy_helper.from_array(weight, name) for name, weight in weights.items())
    run = run_stage("quantize/static", tmp_path, {}, inputs={"model": artifact(tmp_path, model)})
    assert run.value("quantized") == 1
    assert "nodes of LSTM stay in float: `quantize/dynamic` alone stores them in 8 bits" in run.notes


@pytest.mark.parametrize("method", ["minmax", "entropy", "percentile"])
def test_every_method_is_near(tmp_path: Path, method: str) -> None:
    before = artifact(tmp_path, convolution())
    result = quantize(tmp_path, before, method=method, per_channel=True)
    assert result.value("quantized") == 2
    assert "BatchNormalization" not in operators(result)
    assert noise(result.model, before / "model.onnx", IMAGES) < (
        0.3 if method == "entropy" else 0.05
    )  # it cuts more off than so few examples bear


@pytest.mark.parametrize(("per_channel", "sizes"), [(True, {5, 6}), (False, {1})])
def test_a_scale_for_each_channel_of_a_weight(tmp_path: Path, per_channel: bool, sizes: set[int]) -> None:
    result = quantize(tmp_path, artifact(tmp_path, convolution()), per_channel=per_channel)
    stored = {tensor.name: tensor for tensor in onnx.load(result.model).graph.initializer}
    weights = [name for name, tensor in stored.items() if len(tensor.dims) > 1]
    values = {numpy_helper.to_array(stored[f"{name.removesuffix('_quantized')}_scale"]).size for name in weights}
    assert values == sizes


@pytest.mark.slow
@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_a_weight_that_needs_scales_along_two_axes(tmp_path: Path, form: str) -> None:
    """A Gemm has its output channels along the first axis of the weight, the MatMul along the second."""
    before = artifact(tmp_path, store_weights(onnx.parser.parse_model(SHARED_WEIGHTS), SHARED_SIZES))
    result = run_stage("quantize/static", tmp_path, {"per_channel": True, "format": form}, inputs={"model": before})
    assert result.value("quantized") == 3
    assert result.value("max_abs_error") < 0.1


def scales(path: Path) -> dict[str, float]:
    weights = weights_of(onnx.load(path))
    return {name: float(value) for name, value in weights.items() if name.endswith("_scale")}


@pytest.mark.slow
def test_ranges_of_the_distribution_of_values(tmp_path: Path) -> None:
    """For Laplacian values and 8 bits, 6.998 standard deviations on both sides are kept; 16 bits keep more."""
    rows = np.random.default_rng(0).laplace(0, 2, (512, 4)).astype(np.float32)
    rows[7, 1] = 60  # which `minmax` would keep
    np.save(tmp_path / "rows.npy", rows)
    source = {"path": "rows.npy", "inputs": {"x": "rows"}}
    before = artifact(tmp_path, parse(WEIGHTED))
    for stored, steps, widths in (("uint8", 255, 6.998), ("uint16", 65535, 14.333)):
        params = {"dataset": source, "samples": 512, "method": "distribution", "activation_type": stored}
        result = run_stage("quantize/static", tmp_path, params, inputs={"model": before})
        width = min(float(rows.max()), widths * float(rows.std())) - max(float(rows.min()), -widths * float(rows.std()))
        assert scales(result.model)["x_scale"] == pytest.approx(width / steps, rel=1e-3)


def test_ranges_of_the_distribution_need_pairs(tmp_path: Path) -> None:
    before = artifact(tmp_path, parse(WEIGHTED))
    with pytest.raises(StageFailed) as caught:
        quantize(tmp_path, before, "rows", method="distribution", format="qoperator")
    assert str(caught.value) == "`method: distribution` needs `format: qdq`, not qoperator"


@exact_sums
def test_operators_on_integers(tmp_path: Path) -> None:
    before = artifact(tmp_path, convolution())
    result = quantize(tmp_path, before, format="qoperator")
    assert operators(result).keys() >= {"QLinearConv", "QGemm"}
    assert noise(result.model, before / "model.onnx", IMAGES) < 0.05


def test_wider_types_are_nearer(tmp_path: Path) -> None:
    before = artifact(tmp_path, convolution())
    narrow = quantize(tmp_path, before)
    wide = quantize(tmp_path, before, activation_type="uint16", weight_type="int16")
    errors = [noise(result.model, before / "model.onnx", IMAGES) for result in (narrow, wide)]
    assert errors[1] < errors[0] / 20


def test_a_method_that_cuts_an_outlier_off(tmp_path: Path) -> None:
    before = artifact(tmp_path, parse(WORDY))
    feed = {"x": np.random.default_rng(9).uniform(-3, 3, (50, 4)).astype(np.float32)}
    methods: dict[str, dict[str, float]] = {"minmax": {}, "percentile": {"percentile": 98.0}}
    errors = {
        method: noise(quantize(tmp_path, before, "outliers", method=method, **more).model, before / "model.onnx", feed)
        for method, more in methods.items()
    }
    assert errors["minmax"] > 0.2
    assert errors["percentile"] < 0.1


@pytest.mark.slow
def test_bounds_of_the_examples_on_average(tmp_path: Path) -> None:
    before = artifact(tmp_path, parse(WORDY))
    widest, average = (quantize(tmp_path, before, "outliers", moving_average=value) for value in (False, True))
    assert scales(average.model)["x_scale"] < 0.5 * scales(widest.model)["x_scale"]


def test_seven_bits_of_eight(tmp_path: Path) -> None:
    before = artifact(tmp_path, parse(WEIGHTED))
    most = {}
    for reduced in (False, True):
        result = quantize(tmp_path, before, "rows", reduce_range=reduced)
        (weight,) = [tensor for tensor in onnx.load(result.model).graph.initializer if len(tensor.dims) > 1]
        most[reduced] = int(np.abs(numpy_helper.to_array(weight).astype(int)).max())
    assert most == {False: 127, True: 64}


def test_fewer_samples_give_other_ranges(tmp_path: Path) -> None:
    before = artifact(tmp_path, parse(WORDY))
    feed = {"x": np.random.default_rng(9).uniform(-3, 3, (50, 4)).astype(np.float32)}
    result = quantize(tmp_path, before, "outliers", samples=100)
    assert noise(result.model, before / "model.onnx", feed) < 0.05


@pytest.mark.slow
def test_texts_of_different_lengths(tmp_path: Path, tiny_bert: Path) -> None:
    result = quantize(tmp_path, tiny_bert, "tokens", op_types=["MatMul"], per_channel=True)
    assert result.value("quantized") == 12
    assert result.progress[0] == (0, 16, "examples calibrated")
    assert result.value("max_abs_error") < 0.5


def test_nodes_in_and_out(tmp_path: Path) -> None:
    before = artifact(tmp_path, convolution())
    assert quantize(tmp_path, before, exclude=["conv"]).value("quantized") == 1
    assert quantize(tmp_path, before, include=["conv"], preprocess=False).value("quantized") == 1


def test_a_value_that_never_changes_has_no_histogram(tmp_path: Path, tiny_bert: Path) -> None:
    with pytest.raises(StageFailed) as caught:
        quantize(tmp_path, tiny_bert, "padded", method="entropy")
    assert caught.value.problem == "ONNX Runtime cannot quantize the model so"
    assert "bins" in caught.value.why
    assert caught.value.hint == (
        "a value that never changes, such as a mask's, has no histogram: use `method: minmax`, or `op_types` without "
        "the operators that yield it"
    )


STREAM = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[n, 4] x, float[n, 1, 4] cache) => (float[n, 2] y, float[n, 1, 4] next)
<float[4, 2] w = {0.1, -0.2, 0.3, 0.4, 0.5, -0.6, 0.7, 0.8}, int64[2] flat = {-1, 4}, int64[3] deep = {-1, 1, 4}>
{ past = Reshape (cache, flat) sum = Add (x, past) y = MatMul (sum, w) next = Reshape (sum, deep) }
"""
STARTS = """
import numpy as np
import orun

def starts():
    x = np.random.default_rng(0).standard_normal((20, 4)).astype(np.float32)
    return orun.Dataset({"x": x, "cache": 0 * x[:, None]})
"""


def test_states_that_are_always_zero_stay_in_float(tmp_path: Path) -> None:
    """ONNX Runtime would round them to whole numbers, and cut off what is below zero."""
    (tmp_path / "data.py").write_text(STARTS, "utf-8")
    before = artifact(tmp_path, parse(STREAM))
    options = {"dataset": "data.py:starts"}
    result = run_stage("quantize/static", tmp_path, options, inputs={"model": before}, root=tmp_path)
    state, nodes = result.notes
    assert state == (
        "cache (0) never changes in the 20 examples, so the model is calibrated at that value alone. Outputs have the "
        "type and shape of cache, as states have: take chunks from the middle of a run, with the states that the model "
        "had there"
    )
    assert nodes == "2 nodes stay in float, because values of inputs that never change pass through them: past, sum"
    assert result.value("quantized") == 1
    random = np.random.default_rng(1)
    feed = {"x": random.uniform(-0.3, 0.3, (5, 4)), "cache": random.uniform(-0.3, 0.3, (5, 1, 4))}
    feed = {name: values.astype(np.float32) for name, values in feed.items()}
    assert noise(result.model, before / "model.onnx", feed) < 0.05


SCORED = {"x": np.random.default_rng(0).uniform(-1, 0.4, (5, 4)).astype(np.float32)}


@pytest.mark.parametrize(
    ("form", "hidden"),
    [
        ("qdq", "Log (none)"),
        ("qoperator", "Log (none)"),
        *(("qdq", f"Constant <value = float {{{low}}}> ()") for low in ("-3.4e38", "-1e9", "-10000.0")),
    ],
)
def test_nodes_that_masks_pass_through_stay_in_float(tmp_path: Path, form: str, hidden: str) -> None:
    """A range with the mask's number would leave one value for all scores."""
    added = "bias = Where (shown, none, away)  hidden = Add (scores, bias)"
    text = MASKED.replace("hidden = Where (shown, scores, away)", added).replace("Log (none)", hidden)
    before = artifact(tmp_path, parse(text))
    result = quantize(tmp_path, before, "rows", format=form)
    assert result.notes == (
        "3 nodes stay in float, because attention masks or infinite values pass through them: bias, hidden, y",
    )
    assert (
        "3 nodes stay in float, as attention masks or infinite values pass through:\n  bias\n  hidden\n  y\n"
        in result.log
    )
    assert result.value("quantized") == 1
    assert noise(result.model, before / "model.onnx", SCORED) < 0.05
    remaining = {"MatMul", "QLinearMatMul"} & operators(result).keys()
    assert remaining == {"MatMul" if form == "qdq" else "QLinearMatMul"}


def test_scores_that_are_chosen(tmp_path: Path) -> None:
    before = artifact(tmp_path, parse(MASKED))
    result = quantize(tmp_path, before, "rows")
    assert result.notes[0].endswith(": hidden, y")
    assert noise(result.model, before / "model.onnx", SCORED) < 0.05


def test_other_low_values_are_quantized(tmp_path: Path) -> None:
    result = quantize(tmp_path, artifact(tmp_path, parse(WORDY)), "outliers")
    assert result.notes == ()


def test_infinite_values_that_meet_weights_are_refused(tmp_path: Path) -> None:
    """An infinite value without a mask is an error of the data or the model."""
    text = MASKED.replace("y = Softmax (hidden)", "y = MatMul (hidden, w)")
    with pytest.raises(StageFailed) as caught:
        quantize(tmp_path, artifact(tmp_path, parse(text)), "rows")
    assert str(caught.value) == (
        "ONNX Runtime cannot quantize the model so\n"
        "  the range of hidden, y is infinite, and all values in it would become 0\n"
        "  hint: leave the nodes that yield them in float: `exclude`, or `op_types` without operators such as Add "
        "and Where"
    )


@pytest.mark.slow  # small graphs with masks are quick, above
@pytest.mark.parametrize("family", ["mpnet", "mobilebert", "bloom"])
def test_attention_of_transformers(tmp_path: Path, family: str) -> None:
    axes = ["batch", "sequence"]
    params: dict[str, Any] = {
        "model": f"architectures.py:{family}",
        "inputs": {
            "input_ids": {"shape": axes, "dtype": "int64", "high": 98},
            "attention_mask": {"shape": axes, "dtype": "int64", "fill": "right-padded"},
        },
        "outputs": ["y"],
        "exporter": "torchscript",
    }
    exported = run_stage("convert/torch", tmp_path, params, root=MODULES)
    result = run_stage("quantize/static", tmp_path, {"per_channel": True}, inputs={"model": exported.output})
    (note,) = (note for note in result.notes if "stay in float" in note)
    assert note.count("Softmax") == 2
    random = np.random.default_rng(3)
    feed = {"input_ids": random.integers(0, 99, (4, 9)), "attention_mask": (np.arange(9) < [[9], [7], [5], [3]]) * 1}
    assert noise(result.model, exported.model, feed) < 0.25


def test_examples_of_a_model_whose_batch_is_fixed(tmp_path: Path) -> None:
    """Examples may have the axis of the batch, as for `inputs`."""
    before = artifact(tmp_path, parse(WEIGHTED.replace("[n, ", "[2, ")))
    rows = np.random.default_rng(0).standard_normal((5, 2, 4)).astype(np.float32)
    np.savez(tmp_path / "rows.npz", x=rows)
    options = {"dataset": "rows.npz", "inputs": "rows.npz", "smooth": 0.5, "per_channel": True}
    result = run_stage("quantize/static", tmp_path, options, inputs={"model": before})
    assert result.value("quantized") == 1
    assert noise(result.model, before / "model.onnx", {"x": rows[0]}) < 0.02


IMPUTED = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[n, 4] x) => (float[n, 2] y)
<float zero = {0}, float[4, 2] w = {0.1, -0.2, 0.3, 0.4, 0.5, -0.6, 0.7, 0.8}>
{ gone = IsNaN (x) whole = Where (gone, zero, x) y = MatMul (whole, w) }
"""
GAPS = """
import numpy as np
import orun

def gaps():
    x = np.ones((5, 4), np.float32)
    x[3, 1] = x[4, 0] = np.nan
    return orun.Dataset({"x": x})

def ragged():
    return orun.Dataset({"x": [np.full(4, value, np.float32) for value in (1, np.nan)]})
"""


def test_data_with_values_that_are_missing(tmp_path: Path) -> None:
    """ONNX Runtime takes ranges from the other values, or none at all, without a message."""
    (tmp_path / "data.py").write_text(GAPS, encoding="utf-8")

    def run(model: str, dataset: str, kind: str = "quantize/static", **params: str) -> StageRun:
        inputs = {"model": artifact(tmp_path, parse(model))}
        return run_stage(kind, tmp_path, {"dataset": f"data.py:{dataset}", **params}, inputs=inputs, root=tmp_path)

    message = (
        "example {} of the {} used holds NaN in 'x', which the model treats as a number\n"
        "  values with NaN among them have no range\n  {} examples hold one\n"
        "  hint: put a value in its place, or leave the example out, in what makes the dataset"
    )
    for dataset, places in (("gaps", (3, 5, "2 of 5")), ("ragged", (1, 2, "1 of 2"))):
        with pytest.raises(StageFailed) as error:
            run(WEIGHTED, dataset)
        assert str(error.value) == message.format(*places)
    with pytest.raises(StageFailed) as error:
        run(WEIGHTED, "gaps", "quantize/weights", algorithm="gptq")
    assert str(error.value) == message.format(3, 5, "2 of 5")
    result = run(IMPUTED, "gaps")  # it puts zeros in their place
    assert result.value("quantized") == 1
    assert result.notes[0] == "1 node stays in float, because missing values pass through it: whole"
    rows = {"x": np.array([[np.nan, 1, 1, 1], [1, 1, 1, 1]], np.float32)}
    (found,) = answers(result.model, rows)
    np.testing.assert_allclose(found, [[1.5, 0.6], [1.6, 0.4]], atol=0.05)


TABLE = """
<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 1]>
g (float[n, 2] a, float[n, 2] b) => (float[n, 2] y) <float[4, 2] w = {0.1, -0.2, 0.3, 0.4, 0.5, -0.6, 0.7, 0.8}>
{
  together = Concat <axis = 1> (a, b)
  whole = ai.onnx.ml.Imputer <imputed_value_floats = [1.0, 1.0, 1.0, 1.0], replaced_value_float = IMPUTED> (together)
  y = MatMul (whole, w)
}
"""


COLUMNS = """
import numpy as np
import orun

def table():
    a = np.ones((5, 2), np.float32)
    a[3, 1] = np.nan
    return orun.Dataset({"a": a, "b": np.linspace(-1, 1, 10, dtype=np.float32).reshape(5, 2)})
"""


def test_a_table_whose_missing_values_an_imputer_replaces(tmp_path: Path) -> None:
    (tmp_path / "data.py").write_text(COLUMNS, encoding="utf-8")
    model = parse(TABLE.replace("IMPUTED", "0.0"))
    imputer = model.graph.node[1]
    params = {"dataset": "data.py:table"}
    with pytest.raises(StageFailed, match=r"^example 3 of the 5 used holds NaN in 'a'"):  # it replaces 0
        run_stage("quantize/static", tmp_path, params, inputs={"model": artifact(tmp_path, model)}, root=tmp_path)
    next(item for item in imputer.attribute if item.name == "replaced_value_float").f = np.nan
    before = artifact(tmp_path, model)
    result = run_stage("quantize/static", tmp_path, params, inputs={"model": before}, root=tmp_path)
    assert result.value("quantized") == 1
    feed = {"a": np.array([[1, np.nan]], np.float32), "b": np.array([[0.5, 0.2]], np.float32)}
    (found,), (expected,) = (answers(model, feed) for model in (result.model, before / "model.onnx"))
    np.testing.assert_allclose(found, expected, atol=0.03)
    params["method"] = "percentile"
    with pytest.raises(StageFailed) as caught:
        run_stage("quantize/static", tmp_path, params, inputs={"model": before}, root=tmp_path)
    assert (caught.value.why, caught.value.hint) == (
        "a value that is missing or infinite has no histogram",
        "use `method: minmax`",
    )


def test_data_that_does_not_fit(tmp_path: Path) -> None:
    before = artifact(tmp_path, convolution())
    with pytest.raises(UsageError) as caught:
        quantize(tmp_path, before, "wrong")
    assert str(caught.value) == (
        "examples.py:wrong must return an orun.Dataset, not a list\n"
        "  hint: wrap the arrays: orun.Dataset({'input name': array})"
    )
    with pytest.raises(UsageError) as caught:
        quantize(tmp_path, before, "Reader")
    assert str(caught.value) == (
        "examples.py:Reader must return an orun.Dataset, not a Reader\n"
        "  hint: join its batches: `batches = list(iter(reader.get_next, None))`, then `orun.Dataset({name: "
        "np.concatenate([batch[name] for batch in batches]) for name in batches[0]})`"
    )
    with pytest.raises(UsageError) as caught:
        quantize(tmp_path, before, "rows")
    assert str(caught.value) == (
        "examples.py:rows has no values for image, which the model takes\n  it has x\n"
        "  hint: name the arrays of the dataset after the model's inputs"
    )


NOTHING = (
    "nothing in the model could be quantized\n"
    "  only operators with constant weights are, such as Conv, Gemm and MatMul\n"
    "  hint: look at `op_types` and `exclude`"
)


def test_nothing_to_quantize(tmp_path: Path) -> None:
    with pytest.raises(StageFailed) as caught:
        quantize(tmp_path, artifact(tmp_path, parse(ADD)), "threes")
    assert str(caught.value) == NOTHING


# A normalization into two products, a residual, and a product of something else; x has one channel far above the rest.
OUTLIERS = """
<ir_version: 9, opset_import: ["" : 20]>
outliers (float[n, 4] x) => (float[n, 4] y)
<float[4] scale = {1, 60, 1, 1}, float[4] bias = {0, 1, 0, 0},
 float[4, 4] w = {0.1, 0.2, 0.3, 0.4, 0.05, -0.06, 0.07, 0.08, -0.9, 1.0, 1.1, 1.2, 1.3, -1.4, 1.5, 1.6},
 float[4] b = {1, 2, 3, 4}>
{
  normal = LayerNormalization (x, scale, bias)
  [query] q = MatMul (normal, w)
  [key] k = Gemm <transB = 1> (normal, w, b)
  [other] o = Gemm (x, w)
  p = Add (q, k)
  y = Add (p, o)
}
"""
ROWS = {"x": np.random.default_rng(9).uniform(-3, 3, (50, 4)).astype(np.float32)}


def test_outliers_move_into_the_weights(tmp_path: Path) -> None:
    before = artifact(tmp_path, parse(OUTLIERS))
    products = {"op_types": ["MatMul", "Gemm"], "per_channel": True, "preprocess": False}
    plain = quantize(tmp_path, before, "rows", **products)
    smooth = quantize(tmp_path, before, "rows", smooth=0.5, **products)
    errors = [noise(result.model, before / "model.onnx", ROWS) for result in (plain, smooth)]
    assert errors[1] < errors[0] * 0.6
    assert "3 products with smoothed inputs:\n  query\n  key\n  other" in smooth.log
    assert "compared the smoothed float model with the model before it on" in smooth.log
    assert operators(smooth)["Mul"] == 1  # before `other` alone: the normalization has taken the factors of the rest


def test_a_normalisation_that_others_use_stays_as_it_is(tmp_path: Path) -> None:
    before = artifact(tmp_path, parse(OUTLIERS.replace("y = Add (p, o)", "y = Add (p, normal)")))
    result = quantize(tmp_path, before, "rows", smooth=0.5, op_types=["MatMul", "Gemm"], exclude=["key"])
    np.testing.assert_array_equal(weights_of(onnx.load(result.model))["scale"], [1, 60, 1, 1])
    assert "2 products with smoothed inputs:\n  query\n  other" in result.log


def test_a_normalisation_that_a_branch_uses_stays_as_it_is(tmp_path: Path) -> None:
    branches = """
    flag = Constant <value = bool {1}> ()
    y = If (flag) <then_branch = yes () => (float[n, 4] s) { s = Add (p, normal) },
                   else_branch = no () => (float[n, 4] t) { t = Identity (p) }>
    """
    before = artifact(tmp_path, parse(OUTLIERS.replace("y = Add (p, o)", branches)))
    result = quantize(tmp_path, before, "rows", smooth=0.5, op_types=["MatMul", "Gemm"], preprocess=False)
    np.testing.assert_array_equal(weights_of(onnx.load(result.model))["scale"], [1, 60, 1, 1])


def test_nothing_to_smooth(tmp_path: Path) -> None:
    with pytest.raises(StageFailed) as caught:
        quantize(tmp_path, artifact(tmp_path, parse(WORDY)), "rows", smooth=0.5, op_types=["Mul"])
    assert str(caught.value) == (
        "`smooth` found nothing to do\n"
        "  no MatMul or Gemm that is to be quantized has a constant matrix on its right\n"
        "  hint: leave `smooth` out, or look at `op_types`, `include` and `exclude`"
    )


def test_one_node_in_more_bits(tmp_path: Path) -> None:
    before = artifact(tmp_path, parse(OUTLIERS))
    plain = {"op_types": ["MatMul", "Gemm"], "per_channel": True, "preprocess": False}
    wide = {"activation_type": "uint16", "weight_type": "int16"}
    results = [
        quantize(tmp_path, before, "rows", overrides=overrides, **plain)
        for overrides in ({}, {"other": wide}, dict.fromkeys(("query", "key", "other"), wide))
    ]
    errors = [noise(result.model, before / "model.onnx", ROWS) for result in results]
    assert errors[1] < errors[0]
    assert errors[2] < errors[0] / 20
    zeros = {
        node.input[0]: numpy_helper.to_array(weights[node.input[2]]).dtype.name
        for graph in [onnx.load(results[1].model).graph]
        for weights in [{tensor.name: tensor for tensor in graph.initializer}]
        for node in graph.node
        if node.op_type == "QuantizeLinear"
    }
    assert zeros == {"x": "uint16", "normal": "uint8", "q": "uint8", "k": "uint8", "o": "uint16"}


def test_a_constant_of_another_operator_than_a_product_has_one_scale(tmp_path: Path) -> None:
    shifted = artifact(tmp_path, parse(OUTLIERS.replace("y = Add (p, o)", "y = Add (o, scale)")))
    options = {"op_types": ["MatMul", "Gemm", "Add"], "per_channel": True, "preprocess": False}
    result = quantize(tmp_path, shifted, "rows", overrides={"scale": {"weight_type": "int16"}}, **options)
    weights = weights_of(onnx.load(result.model))
    assert (weights["scale_quantized"].dtype.name, weights["scale_scale"].size) == ("int16", 1)


def test_overrides_that_do_not_fit(tmp_path: Path) -> None:
    before = artifact(tmp_path, parse(OUTLIERS))
    with pytest.raises(UnknownName) as unknown:
        quantize(tmp_path, before, "rows", overrides={"qery": {"weight_type": "int16"}}, preprocess=False)
    assert str(unknown.value) == (
        "overrides: the model has no 'qery'\n"
        "  it has b, bias, k, key, normal and 9 more\n"
        "  hint: any ONNX viewer shows them"
    )
    with pytest.raises(StageFailed) as caught:
        quantize(tmp_path, before, "rows", overrides={"query": {"weight_type": "int16"}}, format="qoperator")
    assert str(caught.value) == "`overrides` needs `format: qdq`, not qoperator"


@pytest.mark.slow
def test_a_smoothed_model_whose_weights_are_external(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = artifact(tmp_path, parse(OUTLIERS))
    products = {"op_types": ["MatMul", "Gemm"], "per_channel": True, "preprocess": False}
    plain = quantize(tmp_path, before, "rows", smooth=0.5, **products)
    monkeypatch.setattr(onnx_io, "PROTO_LIMIT", 50)
    monkeypatch.setattr(onnx_io, "EXTERNAL_FROM", 10)
    in_parts = quantize(tmp_path, before, "rows", smooth=0.5, **products)
    assert sorted(path.name for path in in_parts.output.iterdir()) == ["model.onnx", "model.onnx.data"]
    assert in_parts.value("max_abs_error") == plain.value("max_abs_error")


def rounded(result: StageRun) -> tuple[set[str], set[str]]:
    """Return the rounded values, and the weights that are stored as integers."""
    graph = onnx.load(result.model).graph
    values = {node.input[0].removesuffix("_QuantizeLinear_Input") for node in graph.node if node.op_type[0] == "Q"}
    return values, {
        tensor.name.removesuffix("_quantized") for tensor in graph.initializer if tensor.name[-10:] == "_quantized"
    }


CHAIN = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[n, 4] x) => (float[n, 2] y)
<float[4, 4] w = {1, 2, 3, 4, -1, 2, 1, 2, 0.5, 0.2, 0.3, 0.1, 1, 1, -1, 2}, float[2, 4] v = {1, 2, 3, 4, 5, 6, 7, 8},
 float[2] b = {1, 2}>
{
  [first] h = MatMul (x, w)
  [second] y = Gemm <transB = 1> (h, v, b)
}
"""


CHAIN_ROWS = {"x": np.random.default_rng(1).uniform(-1, 1, (50, 4)).astype(np.float32)}


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """The model of two products, and the noise of all its tensors in integers."""
    folder = tmp_path_factory.mktemp("chain")
    before, every = artifact(folder, parse(CHAIN)), ({"x", "h", "y"}, {"w", "v", "b"})
    result = quantize(folder, before, "rows")
    assert rounded(result) == every
    return before, noise(result.model, before / "model.onnx", CHAIN_ROWS)


@pytest.mark.parametrize(
    ("params", "values", "weights"),
    [
        ({"exclude_tensors": ["x"]}, {"h", "y"}, {"w", "v", "b"}),
        ({"exclude_tensors": ["y", "v"]}, {"x", "h"}, {"w", "b"}),
        ({"exclude_tensors": ["b"]}, {"x", "h", "y"}, {"w", "v"}),
        ({"include_tensors": ["x", "w"]}, {"x"}, {"w"}),
        ({"include_tensors": ["x", "w"], "exclude_tensors": ["x"]}, set(), {"w"}),
    ],
)
def test_tensors_in_and_out(
    tmp_path: Path, chain: tuple[Path, float], params: dict[str, Any], values: set[str], weights: set[str]
) -> None:
    before, noise_of_all = chain
    result = quantize(tmp_path, before, "rows", **params)
    assert rounded(result) == (values, weights)
    left = {"x", "h", "y", "w", "v", "b"} - values - weights
    nearer = noise(result.model, before / "model.onnx", CHAIN_ROWS) < noise_of_all
    assert nearer == bool(left - {"b"})  # a bias has 32 bits
    onnx.checker.check_model(result.model, full_check=True)
    assert f"{len(left)} tensors stay float:\n  " in result.log


def test_tensors_that_are_not_there_and_operators_without_pairs(tmp_path: Path) -> None:
    before = artifact(tmp_path, parse(CHAIN))
    unknown = "{}: the model has no '{}'\n  it has b, h, v, w, x and 1 more\n  hint: any ONNX viewer shows them"
    for params, message in (
        ({"exclude_tensors": ["first"]}, unknown.format("exclude_tensors", "first")),
        ({"include_tensors": ["z"]}, unknown.format("include_tensors", "z")),
        ({"include_tensors": ["x"]}, NOTHING),
        ({"exclude_tensors": ["x"], "format": "qoperator"}, "`exclude_tensors` needs `format: qdq`, not qoperator"),
    ):
        with pytest.raises((StageFailed, UnknownName)) as caught:
            quantize(tmp_path, before, "rows", **params)
        assert str(caught.value) == message


def unfused(path: Path, feed: dict[str, np.ndarray[Any, Any]], level: str = "ENABLE_BASIC") -> np.ndarray[Any, Any]:
    """Run a model without QLinear operators of ONNX Runtime."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_{level}")
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    values: np.ndarray[Any, Any] = onnxruntime.InferenceSession(path, options).run(None, feed)[0]
    return values


ALONE = (
    "cannot be combined with float8e4m3fn\n  it is for pairs around Conv, Gemm, MatMul, with `minmax` or `percentile`"
)
RELUS = """
<ir_version: 9, opset_import: ["" : 20]>
relus (float[n, 4] x) => (float[n, 8] y)
{ a = MatMul (x, first)  b = Relu (a)  c = MatMul (b, second)  d = Relu (c)  y = Gemm (d, third, bias) }
"""


@pytest.fixture
def relus(tmp_path: Path) -> Path:
    """Three products with a Relu before two of them."""
    random, model = np.random.default_rng(0), parser.parse_model(RELUS)
    for name, shape in (("first", (4, 16)), ("second", (16, 16)), ("third", (16, 8)), ("bias", (8,))):
        values = random.standard_normal(shape).astype(np.float32) / 4
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    np.save(tmp_path / "rows.npy", random.standard_normal((64, 4)).astype(np.float32))
    return artifact(tmp_path, model)


def in_float8(folder: Path, model: Path, **params: Any) -> StageRun:
    types = {"activation_type": "float8e4m3fn", "weight_type": "float8e4m3fn"}
    source = {"path": "rows.npy", "inputs": {"x": "rows"}}
    return run_stage("quantize/static", folder, {"dataset": source, **types, **params}, inputs={"model": model})


@pytest.mark.parametrize(("method", "per_channel"), [("minmax", True), ("percentile", False)])
def test_8_bit_floats(tmp_path: Path, relus: Path, method: str, *, per_channel: bool) -> None:
    """A Relu before a rounded value stays at every level; ONNX Runtime's own method loses it."""
    result = in_float8(tmp_path, relus, method=method, per_channel=per_channel)
    stored = {tensor.name: tensor for tensor in onnx.load(result.model).graph.initializer}
    kinds = Counter(tensor.data_type for name, tensor in stored.items() if name.endswith(("_quantized", "_zero_point")))
    assert kinds[TensorProto.FLOAT8E4M3FN] == 9
    assert TensorProto.INT8 not in kinds
    assert result.value("quantized") == 3
    counted = operators(result)
    assert (counted["QuantizeLinear"], counted["Max"], counted["Relu"]) == (3, 2, 0)
    feed = {"x": np.load(tmp_path / "rows.npy")}
    right = unfused(relus / "model.onnx", feed)
    for level in ("DISABLE_ALL", "ENABLE_BASIC", "ENABLE_ALL"):
        error = unfused(result.model, feed, level) - right
        assert np.sqrt(np.mean(error**2) / np.mean(right**2)) < 0.1
    options = {"dataset": {"path": "rows.npy", "inputs": {"x": "rows"}}, "metrics": ["cosine"]}
    ports = {"model": result.output, "reference": relus}
    if OPENS_FLOAT8:
        assert run_stage("measure/accuracy", tmp_path, options, inputs=ports).value("cosine.mean") > 0.99
    else:
        with pytest.raises(UsageError) as caught:
            run_stage("measure/accuracy", tmp_path, options, inputs=ports)
        assert caught.value.hint == (
            "in the target, `session: {session.disable_quant_qdq: 1}`: "
            "ONNX Runtime's CPU computes 8-bit floats in float"
        )
    target = Target("cpu", session={"session.disable_quant_qdq": "1"})
    assert run_stage("measure/accuracy", tmp_path, options, inputs=ports, target=target).value("cosine.mean") > 0.99


def test_the_largest_magnitude_is_the_largest_of_8_bit_floats(tmp_path: Path, relus: Path) -> None:
    result = in_float8(tmp_path, relus)
    rows = np.load(tmp_path / "rows.npy")
    weight = weights_of(onnx.load(relus / "model.onnx"))["first"]
    stored = weights_of(onnx.load(result.model))
    assert stored["x_scale"] == pytest.approx(np.abs(rows).max() / 448, rel=1e-6)
    assert stored["first_scale"] == pytest.approx(np.abs(weight).max() / 448, rel=1e-6)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"weight_type": "int8"},
            "float8e4m3fn must be the type of both weights and activations\n  hint: set both types, or neither",
        ),
        (
            {"method": "distribution"},
            (
                "`method: distribution` cannot be combined with float8e4m3fn\n"
                "  ONNX Runtime's Distribution cuts off values beyond 4.5 standard deviations, and loses a Relu before "
                "a rounded value\n"
                "  hint: `method: minmax` keeps all values; `percentile` cuts off outliers"
            ),
        ),
        ({"format": "qoperator"}, f"`format: qoperator` {ALONE}"),
        ({"method": "entropy"}, f"`method: entropy` {ALONE}"),
        ({"reduce_range": True}, f"`reduce_range` {ALONE}"),
        ({"op_types": ["MatMul", "Relu"]}, f"`op_types` {ALONE}"),
        ({"overrides": {"x": {"activation_type": "uint16"}}}, f"`overrides` {ALONE}"),
    ],
)
def test_what_8_bit_floats_do_not_go_with(tmp_path: Path, relus: Path, params: dict[str, Any], message: str) -> None:
    with pytest.raises(StageFailed) as caught:
        in_float8(tmp_path, relus, **params)
    assert str(caught.value) == message


def test_8_bit_floats_are_of_later_operator_sets(tmp_path: Path, relus: Path) -> None:
    model = onnx.load(relus / "model.onnx")
    model.opset_import[0].version = 18
    with pytest.raises(StageFailed) as caught:
        in_float8(tmp_path, artifact(tmp_path, model))
    assert str(caught.value) == (
        "float8e4m3fn needs operator set 19, and the model has 18\n"
        "  hint: put `convert/opset` with `version: 19` before it"
    )
