from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from orun.errors import StageFailed
from tests.stages.models import ADD, parse, store_weights, tied
from tests.stages.support import StageRun, answers, artifact, run_stage
from tests.thin import mostly_slow


def quantize(folder: Path, model: Path, **params: Any) -> StageRun:
    return run_stage("quantize/weights", folder, params, inputs={"model": model})


def refusal(folder: Path, model: Path, **params: Any) -> str:
    with pytest.raises(StageFailed) as caught:
        quantize(folder, model, **params)
    return str(caught.value)


def operators(result: StageRun) -> Counter[str]:
    return Counter(result.operators)


@pytest.fixture
def product(tmp_path: Path) -> Path:
    """One product with a normally distributed weight of 256 by 64."""
    return artifact(tmp_path, matmul(21))


def matmul(opset: int) -> onnx.ModelProto:
    model = parser.parse_model(f"""
    <ir_version: 10, opset_import: ["" : {opset}]>
    product (float[n, 256] x) => (float[n, 64] y) {{ [only] y = MatMul (x, w) }}
    """)
    weight = np.random.default_rng(0).standard_normal((256, 64)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    return model


def noise(result: StageRun, before: Path) -> float:
    x = np.random.default_rng(1).standard_normal((32, 256)).astype(np.float32)
    right, values = (answers(path, {"x": x})[0] for path in (before / "model.onnx", result.model))
    return float(np.sqrt(np.mean((values - right) ** 2) / np.mean(right**2)))


@pytest.mark.parametrize(
    ("params", "limit"),
    [
        ({}, 0.1),
        ({"symmetric": True}, 0.15),
        ({"algorithm": "hqq"}, 0.1),
        ({"algorithm": "k_quant"}, 0.1),
        ({"format": "qdq"}, 0.1),
        ({"bits": 8}, 0.01),
        ({"bits": 8, "accuracy_level": 4}, 0.02),
    ],
)
def test_how_near_each_way_is(tmp_path: Path, product: Path, params: dict[str, Any], limit: float) -> None:
    result = quantize(tmp_path, product, **params)
    assert result.value("quantized") == 1
    assert limit / 20 < noise(result, product) < limit
    assert operators(result)["MatMulNBits" if params.get("format") != "qdq" else "DequantizeLinear"] == 1
    onnx.checker.check_model(result.model)


@pytest.mark.parametrize("algorithm", ["rtn", "gptq"])
def test_zero_points_and_the_precision_of_the_product(tmp_path: Path, product: Path, algorithm: str) -> None:
    def node(**params: Any) -> tuple[int, int]:
        (node,) = onnx.load(quantize(tmp_path, product, algorithm=algorithm, **params).model).graph.node
        inputs = [name for name in node.input if name]
        return len(inputs), next((attribute.i for attribute in node.attribute if attribute.name == "accuracy_level"), 0)

    assert node() == (4, 0)
    assert node(symmetric=True, accuracy_level=4) == (3, 4)


def test_smaller_blocks_are_nearer_and_larger(tmp_path: Path, product: Path) -> None:
    small, large = (quantize(tmp_path, product, block_size=size) for size in (16, 128))
    assert noise(small, product) < noise(large, product)
    assert small.value("size") > large.value("size")


def test_a_transformer(tmp_path: Path, tiny_bert: Path) -> None:
    names = [node.name for node in onnx.load(tiny_bert / "model.onnx").graph.node if "query/MatMul" in node.name]
    assert quantize(tmp_path, tiny_bert).value("quantized") == 12
    assert quantize(tmp_path, tiny_bert, exclude=names).value("quantized") == 10


def test_what_an_algorithm_cannot(tmp_path: Path, product: Path) -> None:
    for algorithm in ("hqq", "k_quant"):
        assert refusal(tmp_path, product, algorithm=algorithm, bits=8) == (
            f"`bits: 8` needs `algorithm: rtn` or `algorithm: gptq`, not {algorithm}"
        )
    assert refusal(tmp_path, product, algorithm="k_quant", symmetric=True) == (
        "`symmetric` needs `algorithm: rtn` or `algorithm: gptq`, not k_quant"
    )
    assert refusal(tmp_path, product, algorithm="gptq", format="qdq") == (
        "`format: qdq` needs `algorithm: rtn`, not gptq"
    )
    assert refusal(tmp_path, product, format="qdq", bits=8) == (
        "`format: qdq` has 4 bits only\n  hint: `bits: 8` needs `format: qoperator`"
    )
    assert refusal(tmp_path, artifact(tmp_path, matmul(20)), format="qdq") == (
        "`format: qdq` needs operator set 21, and the model has 20\n"
        "  hint: put `convert/opset` with `version: 21` before it"
    )


GEMM = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[n, 32] x) => (float[n, 32] y, float[n, 16] z, float[n, 32] scaled, float[n, 32] kept)
{
  [first] y = Gemm <transB = 1> (x, w, b)
  [second] z = Gemm (x, v)
  [third] scaled = Gemm <alpha = 0.5> (x, w)
  [fourth] kept = Gemm <transB = 1> (x, w)
}
"""


@pytest.mark.parametrize("algorithm", ["rtn", "gptq"])
def test_gemm_is_a_product_and_a_sum(tmp_path: Path, algorithm: str) -> None:
    model = parser.parse_model(GEMM)
    random = np.random.default_rng(0)
    for name, shape in (("w", (32, 32)), ("v", (32, 16)), ("b", (32,))):
        values = random.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    before = artifact(tmp_path, model)
    result = quantize(tmp_path, before, algorithm=algorithm, exclude=["fourth"], dims={"n": [8]}, bits=8)
    assert result.value("quantized") == 2
    assert operators(result) == {"MatMulNBits": 2, "Add": 1, "Gemm": 2}
    x = random.standard_normal((4, 32)).astype(np.float32)
    for right, value in zip(answers(before / "model.onnx", {"x": x}), answers(result.model, {"x": x}), strict=True):
        np.testing.assert_allclose(value, right, atol=0.15)


def test_nothing_to_quantize(tmp_path: Path) -> None:
    assert refusal(tmp_path, artifact(tmp_path, parse(ADD))) == (
        "nothing in the model could be quantized\n"
        "  it has no MatMul or Gemm whose right side is a constant matrix\n"
        "  hint: look at `exclude`"
    )


DOUBLE = """
<ir_version: 9, opset_import: ["" : 20]>
mixed (double[n, 64] x) => (float[n, 64] y) { h = MatMul (x, v)  narrow = Cast <to = 1> (h)  y = MatMul (narrow, w) }
"""


@pytest.mark.parametrize("algorithm", ["rtn", "gptq"])
@pytest.mark.parametrize("alone", [False, True])
def test_a_product_by_the_table_of_words(tmp_path: Path, algorithm: str, alone: bool) -> None:
    """A tied weight is stored transposed for the product; other nodes read it as it was."""
    model = tied()
    if alone:
        del model.graph.node[3:], model.graph.node[0], model.graph.output[1:]
        model.graph.input[0].CopyFrom(helper.make_tensor_value_info("words", TensorProto.FLOAT, ["n", 64]))
    result = quantize(tmp_path, artifact(tmp_path, model), algorithm=algorithm, dims={"n": [8]})
    assert result.value("quantized") == 1
    assert "Transpose" not in operators(result)
    assert ("table" in {tensor.name for tensor in onnx.load(result.model).graph.initializer}) is not alone


@pytest.mark.parametrize("algorithm", ["rtn", "hqq", "k_quant", "gptq"])
def test_products_in_float64_stay(tmp_path: Path, algorithm: str) -> None:
    """MatMulNBits has no float64; the products here have no names."""
    model = parser.parse_model(DOUBLE)
    for name, kind in (("v", np.float64), ("w", np.float32)):
        values = np.random.default_rng(0).standard_normal((64, 64)).astype(kind)
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    result = quantize(tmp_path, artifact(tmp_path, model), algorithm=algorithm)
    assert operators(result) == {"MatMul": 1, "Cast": 1, "MatMulNBits": 1}
    del model.graph.node[1:]
    model.graph.node[0].output[0] = "y"
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    assert refusal(tmp_path, artifact(tmp_path, model), algorithm=algorithm) == (
        "nothing in the model could be quantized\n"
        "  v: in float64, and only float32 is quantized\n"
        "  hint: export the model in float32 (`module.float()` in PyTorch)"
    )


BRANCHES = """
<ir_version: 10, opset_import: ["" : 21]>
branches (float[n, 64] x, bool b) => (float[n, 64] y)
{
  [outer] h = MatMul (x, w)
  y = If (b) <then_branch = yes () => (float[n, 64] s) { [first] s = MatMul (h, v) },
              else_branch = no () => (float[n, 64] t) { [second] t = MatMul (h, w) }>
}
"""


@pytest.fixture
def branches() -> onnx.ModelProto:
    """Three products, two of them in the branches of an If; one weight is read outside and inside."""
    return store_weights(parser.parse_model(BRANCHES), {"w": (64, 64), "v": (64, 64)})


def test_products_inside_of_branches(tmp_path: Path, branches: onnx.ModelProto) -> None:
    before = artifact(tmp_path, branches)
    assert quantize(tmp_path, before).value("quantized") == 3
    assert quantize(tmp_path, before, exclude=["outer", "second"]).value("quantized") == 1
    branches.graph.initializer[1].raw_data = np.full((64, 64), np.nan, np.float32).tobytes()
    assert refusal(tmp_path, artifact(tmp_path, branches)) == (
        "not all values of v are finite\n"
        "  hint: find out what made them so, or leave out the nodes that read them: `exclude`"
    )


def test_gptq_keeps_a_weight_that_a_branch_reads(tmp_path: Path, branches: onnx.ModelProto) -> None:
    result = quantize(tmp_path, artifact(tmp_path, branches), algorithm="gptq")
    assert result.value("quantized") == 1
    assert {"v", "w"} <= {tensor.name for tensor in onnx.load(result.model).graph.initializer}


@pytest.mark.parametrize("options", mostly_slow([{}, {"symmetric": True}, {"block_size": 256}, {"bits": 8}], {}))
def test_gptq_makes_up_for_its_errors(tmp_path: Path, options: dict[str, Any]) -> None:
    """On inputs with correlated channels, GPTQ is more accurate than rounding to the nearest."""
    before = artifact(tmp_path, matmul(21))
    random = np.random.default_rng(3)
    mix = random.standard_normal((256, 256)) * np.exp(-np.arange(256) / 40)[:, None]
    np.savez(tmp_path / "typical.npz", x=(random.standard_normal((400, 256)) @ mix).astype(np.float32))
    unseen = {"x": (random.standard_normal((200, 256)) @ mix).astype(np.float32)}
    errors = {}
    for algorithm in ("rtn", "gptq"):
        data = {"dataset": {"path": "typical.npz"}, "samples": 400} if algorithm == "gptq" else {}
        result = quantize(tmp_path, before, algorithm=algorithm, **data, **options)
        right, values = (answers(path, unseen)[0] for path in (before / "model.onnx", result.model))
        errors[algorithm] = np.sqrt(np.mean((values - right) ** 2))
    assert errors["gptq"] < errors["rtn"] * 0.75


def test_gptq_leaves_out_what_it_is_told(tmp_path: Path, product: Path) -> None:
    assert refusal(tmp_path, product, algorithm="gptq", exclude=["only"]) == (
        "nothing in the model could be quantized\n"
        "  it has no MatMul or Gemm whose right side is a constant matrix\n"
        "  hint: look at `exclude`"
    )
