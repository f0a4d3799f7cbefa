from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper, numpy_helper, parser

from orun.errors import StageFailed, UnknownName
from orun.stages._graph.sessions import open_model
from orun.stages.optimize._low_rank.choice import Option, iter_sizes, order_steps, take
from orun.stages.optimize._low_rank.factors import factorize
from orun.stages.optimize._low_rank.layers import Layer, find_layers
from orun.stages.optimize._low_rank.rewriting import replace_layers
from tests.stages.models import convolution, weights_of
from tests.stages.support import StageRun, artifact, run_stage

Array = NDArray[Any]
ROOT = Path(__file__).parents[3]

PRODUCT = """
<ir_version: 9, opset_import: ["" : 20]>
product (float[n, 16] x) => (float[n, 24] y)
{ [product] y = MatMul (x, w) }
"""
GEMM = """
<ir_version: 9, opset_import: ["" : 20]>
gemm (float[n, 16] x) => (float[n, 24] y)
{ [gemm] y = Gemm <transB = 1, alpha = 0.5, beta = 2.0> (x, w, bias) }
"""
CONV = """
<ir_version: 9, opset_import: ["" : 20]>
conv (float[n, 6, 11, 10] x) => (float[n, 8, p, q] y)
{{ [conv] y = Conv <{attributes}> (x, w, bias) }}
"""
# The second layer reaches the output a thousand times weaker than the first.
UNEQUAL = """
<ir_version: 9, opset_import: ["" : 20]>
unequal (float[n, 16] x) => (float[n, 16] y) <float little = {0.001}>
{
  [loud] a = MatMul (x, w1)
  [quiet] b = MatMul (x, w2)
  c = Mul (b, little)
  y = Add (a, c)
}
"""
CONVOLUTIONS = [
    ("group = 1", (8, 6, 3, 3)),
    ("strides = [2, 1], pads = [1, 0, 2, 1], kernel_shape = [3, 2]", (8, 6, 3, 2)),
    ("dilations = [2, 3], pads = [1, 1, 1, 1]", (8, 6, 3, 3)),
    ('auto_pad = "SAME_UPPER", strides = [2, 2]', (8, 6, 4, 3)),
    ('auto_pad = "SAME_LOWER", strides = [2, 3]', (8, 6, 4, 3)),
    ('auto_pad = "VALID"', (8, 6, 3, 3)),
    ("group = 1", (8, 6, 1, 1)),
]


def build(text: str, **weights: Array) -> onnx.ModelProto:
    model = parser.parse_model(text)
    for name, array in weights.items():
        model.graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), name))
    onnx.checker.check_model(model, full_check=True)
    return model


def random(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def write_rows(folder: Path, rows: Array | None = None) -> str:
    """Write a dataset of rows; by default 64 whose channels differ in size. Return its parameter."""
    sizes = np.geomspace(0.01, 10, 16)[np.random.default_rng(6).permutation(16)]
    made_up = random(64, 16, seed=5) * sizes
    np.savez(folder / "rows.npz", x=(made_up if rows is None else rows).astype(np.float32))
    return "rows.npz"


def low_rank(folder: Path, model: onnx.ModelProto, **params: Any) -> StageRun:
    return run_stage("optimize/low-rank", folder, params, inputs={"model": artifact(folder, model)})


def refusal(folder: Path, model: onnx.ModelProto, **params: Any) -> str:
    with pytest.raises(StageFailed) as caught:
        low_rank(folder, model, **params)
    return str(caught.value)


def answer(folder: Path, model: onnx.ModelProto, value: Array) -> Array:
    run = open_model(artifact(folder, model) / "model.onnx", [model.graph.output[0].name])
    (result,) = run({model.graph.input[0].name: value})
    return result


def only_layer(model: onnx.ModelProto) -> Layer:
    (layer,) = find_layers(model, ["Conv", "Gemm", "MatMul"], [], pytest.fail)
    return layer


def test_a_weight_of_rank_three_is_found(tmp_path: Path) -> None:
    model = build(PRODUCT, w=random(16, 3) @ random(3, 24))
    run = low_rank(tmp_path, model, error=1e-3, dataset=write_rows(tmp_path))
    result = onnx.load(run.model)
    assert [(node.op_type, node.name, list(node.input), list(node.output)) for node in result.graph.node] == [
        ("MatMul", "product/rank", ["x", "w_left"], ["y_rank"]),
        ("MatMul", "product", ["y_rank", "w_right"], ["y"]),
    ]
    assert {name: array.shape for name, array in weights_of(result).items()} == {"w_left": (16, 3), "w_right": (3, 24)}
    names = ("factorised", "nodes", "parameters", "removed")
    assert [run.value(name) for name in names] == [1, 2, 3 * 40, 16 * 24 - 3 * 40]
    assert run.value("error") < 1e-5
    assert run.value("max_abs_error") < 1e-4
    assert "MatMul 'product': rank 3, 120 of 384 numbers" in run.log


def test_factors_change_the_outputs_least() -> None:
    """The best approximation of a product of rank r is known: the first r parts of its own decomposition."""
    weight = random(16, 24)
    rows = random(400, 16, seed=5) * np.geomspace(0.01, 10, 16)
    layer = only_layer(build(PRODUCT, w=weight))
    whitened = factorize(layer.to_matrix(), 16, layer.compute_max_rank(16), rows.T.astype(np.float64) @ rows)
    plain = factorize(layer.to_matrix(), 16, layer.compute_max_rank(16), None)
    right = rows @ weight
    energies = np.linalg.svd(right, compute_uv=False) ** 2
    for rank in (1, 4, 9):
        best = energies[rank:].sum() / energies.sum()
        error, other = (
            float(np.sum((rows @ factors.multiply(rank, 16) - right) ** 2) / energies.sum())
            for factors in (whitened, plain)
        )
        assert error == pytest.approx(best, rel=2e-3)
        assert whitened.errors[list(whitened.ranks).index(rank)] == pytest.approx(
            best, rel=2e-3, abs=1e-4
        )  # of the damping
        assert other > 1.5 * best


@pytest.mark.parametrize(("attributes", "shape"), CONVOLUTIONS)
def test_the_rows_of_a_convolution_are_what_it_multiplies(
    tmp_path: Path, attributes: str, shape: tuple[int, ...]
) -> None:
    model = build(CONV.format(attributes=attributes), w=random(*shape), bias=np.zeros(8))
    layer, image = only_layer(model), random(2, 6, 11, 10, seed=3)
    convolved = answer(tmp_path, model, image)
    product = layer.unfold(image) @ layer.to_matrix()
    np.testing.assert_allclose(product, np.moveaxis(convolved, 1, -1).reshape(-1, 8), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("attributes", "shape"), CONVOLUTIONS)
def test_two_convolutions_compute_what_their_product_does(
    tmp_path: Path, attributes: str, shape: tuple[int, ...]
) -> None:
    layer = only_layer(build(CONV.format(attributes=attributes), w=random(*shape), bias=random(8)))
    assert len(layer.list_row_counts()) == (2 if min(shape[2:]) > 1 else 1)
    for rows in layer.list_row_counts():
        compare_with_product(tmp_path, CONV.format(attributes=attributes), rows, random(2, 6, 11, 10, seed=3), shape, 8)


@pytest.mark.parametrize(("text", "shape"), [(PRODUCT, (16, 24)), (GEMM, (24, 16))])
def test_two_products_compute_what_their_product_does(tmp_path: Path, text: str, shape: tuple[int, ...]) -> None:
    compare_with_product(tmp_path, text, 16, random(5, 16, seed=3), shape, 24 if text == GEMM else 0)


def compare_with_product(folder: Path, text: str, rows: int, value: Array, shape: tuple[int, ...], biases: int) -> None:
    """Factorise the only layer, and compare with the model whose weight is the product of the factors."""
    bias = {"bias": random(biases, seed=1)} if biases else {}
    model = build(text, w=random(*shape), **bias)
    layer = only_layer(model)
    rank = layer.compute_max_rank(rows)
    factors = factorize(layer.to_matrix(), rows, rank, None)
    product = build(text, w=layer.restore(factors.multiply(rank, layer.list_row_counts()[0])), **bias)
    replace_layers(model, [layer], {0: (factors.left, factors.right)})
    onnx.checker.check_model(model, full_check=True)
    assert sum(array.size for name, array in weights_of(model).items() if name != "bias") < layer.array.size
    np.testing.assert_allclose(answer(folder, model, value), answer(folder, product, value), rtol=1e-4, atol=1e-4)


def test_every_beginning_of_the_steps_is_the_least_harm() -> None:
    random_numbers = np.random.default_rng(0)
    sizes = [100, 120, 80]
    options = [
        Option(layer, 1, rank, 13 * rank, float(harm))
        for layer, size in enumerate(sizes)
        for rank, harm in enumerate(sorted(random_numbers.random(6), reverse=True), 1)
        if 13 * rank < size
    ]
    steps = order_steps(sizes, options)
    full = [Option(layer, 0, 0, size, 0.0) for layer, size in enumerate(sizes)]
    combinations = list(
        itertools.product(*([full[layer], *(o for o in options if o.layer == layer)] for layer in range(3)))
    )
    for count, size in enumerate(iter_sizes(sizes, steps)):
        chosen = take(steps, count)
        harm = sum(option.harm for option in chosen.values())
        assert size == sum(chosen[layer].numbers if layer in chosen else sizes[layer] for layer in range(3))
        assert harm == pytest.approx(
            min(sum(o.harm for o in some) for some in combinations if sum(o.numbers for o in some) <= size)
        )
    assert size == 39  # rank 1 everywhere


def test_a_layer_that_harms_little_goes_first(tmp_path: Path) -> None:
    model = build(UNEQUAL, w1=random(16, 16), w2=random(16, 16, seed=1))
    run = low_rank(tmp_path, model, size=0.8, dataset=write_rows(tmp_path))
    names = {node.name for node in onnx.load(run.model).graph.node}
    assert {"loud", "quiet", "quiet/rank"} <= names
    assert "loud/rank" not in names
    assert run.value("parameters") <= 0.8 * 513
    assert run.value("error") < 1e-3


def test_budgets_hold(tmp_path: Path) -> None:
    model = build(PRODUCT, w=random(16, 24))
    dataset = write_rows(tmp_path)
    exact = low_rank(tmp_path, model, error=0.05, dataset=dataset)
    rough = low_rank(tmp_path, model, error=0.2, dataset=dataset)
    assert exact.value("error") <= 0.05
    assert exact.value("error") < rough.value("error") <= 0.2
    assert exact.value("parameters") > rough.value("parameters")
    by_size = low_rank(tmp_path, model, size=rough.value("parameters") / 384, dataset=dataset)
    assert by_size.model.read_bytes() == rough.model.read_bytes()


def test_a_convolution_of_images_and_its_head(tmp_path: Path) -> None:
    np.savez(tmp_path / "images.npz", image=random(16, 3, 8, 8))
    run = low_rank(tmp_path, convolution(), size=0.8, dataset="images.npz")
    model = onnx.load(run.model)
    assert run.value("factorised") >= 1
    assert run.value("parameters") <= 0.8 * (162 + 30 + 5 + 4 * 6)
    assert [node.op_type for node in model.graph.node].count("BatchNormalization") == 1
    assert not [value.name for value in model.graph.value_info if value.name == "kernel"]


@pytest.mark.parametrize("kind", [np.float16, np.float64])
def test_other_floating_point(tmp_path: Path, kind: type[np.floating[Any]]) -> None:
    element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    model = parser.parse_model(PRODUCT)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = element
    model.graph.initializer.append(numpy_helper.from_array((random(16, 3) @ random(3, 24)).astype(kind), "w"))
    np.savez(tmp_path / "rows.npz", x=random(64, 16).astype(kind))
    dataset = {"path": "rows.npz", "types": {"x": np.dtype(kind).name}}
    run = low_rank(tmp_path, model, error=0.01, dataset=dataset)
    assert {array.dtype for array in weights_of(onnx.load(run.model)).values()} == {np.dtype(kind)}
    assert run.value("parameters") == 120


OBSTACLES: Sequence[tuple[str, Mapping[str, tuple[int, ...]], str]] = [
    (
        "a = MatMul (x, w) y = MatMul (a, w)",
        {"w": (16, 16)},
        "MatMul 'a' keeps its weight: 'w' is shared, 2 nodes read it",
    ),
    ("y = MatMul (x, w)", {"w": (16, 1)}, "MatMul 'y' keeps its weight: two factors would be no smaller"),
    ("y = MatMul (x, w)", {"w": (2, 16, 16)}, "MatMul 'y' keeps its weight: it is a batch of matrices"),
    ("y = Gemm <transA = 1> (x, w)", {"w": (8, 16)}, "Gemm 'y' keeps its weight: the layer transposes its input"),
    ("y = Relu (x)", {}, "it has no Conv, Gemm, MatMul with a stored weight in float"),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "shapes", "why"), OBSTACLES)
def test_nothing_that_could_be_factorised(
    tmp_path: Path, nodes: str, shapes: Mapping[str, tuple[int, ...]], why: str
) -> None:
    text = f"""<ir_version: 9, opset_import: ["" : 20]> g (float[8, 16] x) => (float[...] y) {{ {nodes} }}"""
    text = text.replace("float[...]", "float[a, b, c]" if "batch" in why else "float[a, b]")
    model = build(text, **{name: random(*shape) for name, shape in shapes.items()})
    problem, reason, *_, hint = refusal(tmp_path, model, size=0.5, method="plain").splitlines()
    assert [problem, reason] == ["nothing in the model can be factorised", f"  {why}"]
    assert hint == "  hint: leave the stage out"


def test_a_weight_that_the_model_computes(tmp_path: Path) -> None:
    text = """<ir_version: 9, opset_import: ["" : 20]>
        g (float[8, 16] x) => (float[8, 16] y) { v = Neg (w) y = MatMul (x, v) }"""
    message = refusal(tmp_path, build(text, w=random(16, 16)), size=0.5, method="plain", op_types=["Conv"])
    assert message == (
        "nothing in the model can be factorised\n"
        "  it has no Conv with a stored weight in float\n"
        "  hint: `optimize/simplify` before it stores what the model computes from weights alone"
    )


def test_quantized_weights(tmp_path: Path) -> None:
    for kind, product in (("dynamic", "MatMulInteger 'product_quant'"), ("static", "MatMul 'product'")):
        before = artifact(tmp_path, build(PRODUCT, w=random(16, 24)))
        quantized = run_stage(f"quantize/{kind}", tmp_path, inputs={"model": before})
        assert refusal(tmp_path, onnx.load(quantized.model), size=0.5, method="plain") == (
            "nothing in the model can be factorised\n"
            f"  the weight of {product} is quantized\n"
            "  hint: put this stage before quantization"
        )


def test_budgets_that_cannot_be_met(tmp_path: Path) -> None:
    model = build(PRODUCT, w=random(16, 24))
    model.graph.initializer.append(numpy_helper.from_array(random(384), "unread"))
    assert refusal(tmp_path, model, size=0.5, method="plain") == (
        "factors cannot make the model as small as 50 %\n"
        "  at their lowest ranks 55.2 % of its numbers are left; the others are not in layers that can be factorised\n"
        "  hint: raise `size`; the log says which layers keep their weights"
    )
    assert refusal(tmp_path, model, size=1.0, method="plain") == "`size: 100 %` leaves nothing to do"
    rows = write_rows(tmp_path, rows=random(64, 16))
    message = refusal(tmp_path, build(PRODUCT, w=np.eye(16, 24)), error=0.001, dataset=rows).splitlines()
    assert message[0] == "no layer can be factorised within an error of 0.1 %"
    assert message[1].startswith("  MatMul 'product', which harms least, causes ")
    assert message[2] == "  hint: raise `error`, or leave the stage out: the weights have no low rank"


def test_a_layer_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UnknownName) as caught:
        low_rank(tmp_path, convolution(), exclude=["cnv"], size=0.9, method="plain")
    assert str(caught.value) == (
        "exclude: the model has no 'cnv'\n"
        "  it has conv, flat, head, norm, pool and 1 more\n"
        "  hint: any ONNX viewer shows them"
    )


@pytest.mark.slow
def test_digits_are_recognised_at_a_third_of_the_size(tmp_path: Path) -> None:
    """The CNN of pipelines/vision.yaml, trained on real digits."""
    root = ROOT / "pipelines"
    exported = run_stage(
        "convert/torch",
        tmp_path,
        {
            "model": "digits_torch.py:trained",
            "inputs": {"image": {"shape": ["batch", 1, 8, 8], "low": 0.0, "high": 1.0}},
            "outputs": ["logits"],
            "exporter": "torchscript",
        },
        root=root,
    )
    run = run_stage(
        "optimize/low-rank",
        tmp_path,
        {"size": 0.33, "dataset": "digits_torch.py:calibration", "samples": 400},
        inputs={"model": exported.output},
        root=root,
    )
    accuracy = run_stage(
        "measure/accuracy",
        tmp_path,
        {"dataset": "digits_torch.py:held_out", "metrics": ["accuracy", "agreement"]},
        inputs={"model": run.output, "reference": exported.output},
        root=root,
    )
    assert run.value("size") < 0.36 * exported.value("size")
    assert accuracy.value("agreement") > 0.97
    assert accuracy.value("accuracy") > 0.93
