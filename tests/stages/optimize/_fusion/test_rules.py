"""The rules on small graphs: what they fuse, and what they must leave alone."""

from __future__ import annotations

import importlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from numpy.typing import ArrayLike, NDArray
from onnx import numpy_helper, parser
from onnx_ir.passes.common import RemoveUnusedNodesPass

from orun.errors import StageFailed
from orun.stages.optimize._fusion.graph import Rewriter
from tests.stages.support import StageRun, artifact, run_stage

# From rows of width 8 to two heads of size 4, and back.
SPLIT = """
  size = Constant <value = int64[4] {0, 0, 2, 4}> ()
  q3 = MatMul (x, wq)
  k3 = MatMul (x, wk)
  v3 = MatMul (x, wv)
  q4 = Reshape (q3, size)
  k4 = Reshape (k3, size)
  v4 = Reshape (v3, size)
  q = Transpose <perm = [0, 2, 1, 3]> (q4)
  kt = Transpose <perm = [0, 2, 3, 1]> (k4)
  v = Transpose <perm = [0, 2, 1, 3]> (v4)
"""
JOIN = """
  back = Transpose <perm = [0, 2, 1, 3]> (seen)
  width = Constant <value = int64[3] {0, 0, 8}> ()
  joined = Reshape (back, width)
  y = MatMul (joined, wo)
"""
MATRICES = ("wq", "wk", "wv", "wo")
Weights = dict[str, NDArray[np.float32]]


def build(
    text: str,
    weights: Weights,
    inputs: str = "",
    outputs: str = "float[n, s, 8] y",
    x: str = "float[n, s, 8] x",
    opset: int = 20,
) -> onnx.ModelProto:
    signature = f"graph ({x}{', ' if inputs else ''}{inputs}) => ({outputs})"
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]> {signature} {{ {text} }}')
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in weights.items())
    onnx.checker.check_model(model, full_check=True)
    return model


def matrices(*names: str) -> Weights:
    random = np.random.default_rng(0)
    return {name: random.standard_normal((8, 8)).astype(np.float32) for name in names}


def vectors(*names: str) -> Weights:
    random = np.random.default_rng(1)
    return {name: random.standard_normal(8).astype(np.float32) for name in names}


def attention(
    scores: str, inputs: str = "", outputs: str = "float[n, s, 8] y", **weights: ArrayLike
) -> onnx.ModelProto:
    """An attention of two heads over x: from its queries, keys and values to what is seen as `scores` says."""
    float_weights = {name: np.array(value, np.float32) for name, value in weights.items()}
    return build(SPLIT + scores + JOIN, matrices(*MATRICES) | float_weights, inputs, outputs)


def fuse(folder: Path, model: onnx.ModelProto, **params: object) -> StageRun:
    run = run_stage(
        "optimize/transformer", folder, {"method": "rules", **params}, inputs={"model": artifact(folder, model)}
    )
    assert run.value("max_abs_error") < 2e-5
    return run


def operators(run: StageRun) -> Counter[str]:
    return Counter(run.operators)


def attributes(run: StageRun, operator: str) -> dict[str, Any]:
    """Attributes of the only node of an operator."""
    (node,) = [node for node in onnx.load(run.model).graph.node if node.op_type == operator]
    return {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}


def test_attention_without_a_mask(tmp_path: Path) -> None:
    scores = (
        "p = MatMul (q, kt) c = Constant <value = float {0.5}> () s = Mul (p, c) w = Softmax (s) seen = MatMul (w, v)"
    )
    run = fuse(tmp_path, attention(scores))
    assert operators(run) == {"Attention": 1, "MatMul": 1}


@pytest.mark.parametrize("scale", [1.0, 0.125])
def test_another_scale(tmp_path: Path, scale: float) -> None:
    scores = (
        f"c = Constant <value = float {{{scale}}}> () qs = Mul (q, c) s = MatMul (qs, kt) "
        "w = Softmax (s) seen = MatMul (w, v)"
    )
    run = fuse(tmp_path, attention(scores))
    assert attributes(run, "Attention")["scale"] == scale


def test_a_scale_after_the_mask_is_of_the_mask_too(tmp_path: Path) -> None:
    scores = (
        "p = MatMul (q, kt) b = Add (p, mask) c = Constant <value = float {0.5}> () s = Mul (b, c) "
        "w = Softmax (s) seen = MatMul (w, v)"
    )
    run = fuse(tmp_path, attention(scores, "float[n, 1, s, s] mask"))
    assert operators(run) == {"Attention": 1, "MatMul": 1, "Mul": 1}


def reasons(run: StageRun) -> list[str]:
    """Why attentions were left, from the log."""
    start = "in pieces: the attention that yields seen: "
    return [line.removeprefix(start) for line in run.log.splitlines() if line.startswith(start)]


@pytest.mark.parametrize(
    ("mask", "hidden"),
    [("Where (mask, p, hidden)", -1e4), ("Where (mask, hidden, p)", -3e38), ("Where (mask, p, hidden)", -np.inf)],
)
def test_scores_that_a_mask_replaces(tmp_path: Path, mask: str, hidden: float) -> None:
    scores = f"p = MatMul (q, kt) s = {mask} w = Softmax (s) seen = MatMul (w, v)"
    run = fuse(tmp_path, attention(scores, "bool[n, 1, s, s] mask", hidden=hidden))
    assert operators(run) == {"Attention": 1, "MatMul": 1, "Where": 1}


def test_a_bias_inside_a_mask_and_one_outside(tmp_path: Path) -> None:
    scores = (
        "p = MatMul (q, kt) a = Add (p, near) s = Where (mask, a, hidden) b = Sub (s, far) "
        "w = Softmax (b) seen = MatMul (w, v)"
    )
    inputs = "bool[n, 1, s, s] mask, float[1, 2, s, s] near, float[n, 1, s, s] far"
    run = fuse(tmp_path, attention(scores, inputs, hidden=-3e38))
    assert operators(run) == {"Attention": 1, "MatMul": 1, "Where": 1, "Mul": 1, "Add": 1}


FOLDED = """
  size = Constant <value = int64[4] {0, 0, 2, 4}> ()
  fold = Constant <value = int64[3] {-1, 5, 4}> ()
  unfold = Constant <value = int64[4] {-1, 2, 5, 4}> ()
  view = Constant <value = int64[4] {-1, 2, 5, 5}> ()
  flat = Constant <value = int64[3] {-1, 5, 5}> ()
  q3 = MatMul (x, wq)
  k3 = MatMul (x, wk)
  v3 = MatMul (x, wv)
  q4 = Reshape (q3, size)
  k4 = Reshape (k3, size)
  v4 = Reshape (v3, size)
  qh = Transpose <perm = [0, 2, 1, 3]> (q4)
  kh = Transpose <perm = [0, 2, 1, 3]> (k4)
  vh = Transpose <perm = [0, 2, 1, 3]> (v4)
  q = Reshape (qh, fold)
  k = Reshape (kh, fold)
  v = Reshape (vh, fold)
  kt = Transpose <perm = [0, 2, 1]> (k)
  p = MatMul (q, kt)
  folded = Constant <value = int64[3] {-1, 1, 5}> ()
  alibi = Reshape (near, folded)
  a = Add (p, alibi)
  s = Reshape (a, view)
  b = Add (s, mask)
  w = Softmax (b)
  wf = Reshape (w, flat)
  seen3 = MatMul (wf, v)
  seen = Reshape (seen3, unfold)
"""


@pytest.mark.slow
def test_heads_that_are_folded_into_the_batch(tmp_path: Path) -> None:
    """As BLOOM has them: a bias for each head there, and a mask where they are apart."""
    near_and_mask = "float[n, 2, 1, 5] near, float[n, 1, 5, 5] mask"
    weights = matrices(*MATRICES)
    model = build(FOLDED + JOIN, weights, near_and_mask, "float[n, 5, 8] y", x="float[n, 5, 8] x")
    run = fuse(tmp_path, model)
    assert operators(run) == {"Attention": 1, "MatMul": 1, "Add": 1}


def test_heads_that_are_split_where_the_batch_comes_second(tmp_path: Path) -> None:
    """As PyTorch's MultiheadAttention has them: one transposition takes keys from the first axis to the last."""
    text = """
  length = Constant <value = int64[3] {5, 6, 4}> ()
  xt = Transpose <perm = [1, 0, 2]> (x)
  q3 = MatMul (xt, wq)
  k3 = MatMul (xt, wk)
  v3 = MatMul (xt, wv)
  q4 = Reshape (q3, length)
  k4 = Reshape (k3, length)
  v4 = Reshape (v3, length)
  q = Transpose <perm = [1, 0, 2]> (q4)
  kt = Transpose <perm = [1, 2, 0]> (k4)
  v = Transpose <perm = [1, 0, 2]> (v4)
  s = MatMul (q, kt)
  w = Softmax (s)
  seen = MatMul (w, v)
  back = Transpose <perm = [1, 0, 2]> (seen)
  width = Constant <value = int64[3] {5, 3, 8}> ()
  joined = Reshape (back, width)
  projected = MatMul (joined, wo)
  y = Transpose <perm = [1, 0, 2]> (projected)
"""
    model = build(text, matrices(*MATRICES), outputs="float[3, 5, 8] y", x="float[3, 5, 8] x")
    run = fuse(tmp_path, model)
    assert operators(run)["MultiHeadAttention"] == 1
    assert run.value("attentions_left") == 0


def test_a_head_for_each_element_of_the_batch(tmp_path: Path) -> None:
    """Without a head's axis anywhere, as an attention over the pixels of an image has it."""
    text = """
  q = MatMul (x, wq)
  k = MatMul (x, wk)
  v = MatMul (x, wv)
  kt = Transpose <perm = [0, 2, 1]> (k)
  p = MatMul (q, kt)
  b = Add (p, mask)
  w = Softmax (b)
  seen = MatMul (w, v)
  y = MatMul (seen, wo)
"""
    run = fuse(tmp_path, build(text, matrices(*MATRICES), "float[n, s, s] mask"))
    assert operators(run) == {"Attention": 1, "MatMul": 1, "Unsqueeze": 1}


GROUPS = """
  size = Constant <value = int64[4] {0, 0, 2, 8}> ()
  few = Constant <value = int64[4] {0, 0, 1, 8}> ()
  two = Constant <value = int64[1] {2}> ()
  times = Constant <value = int64[5] {1, 1, 2, 1, 1}> ()
  many = Constant <value = int64[4] {0, 2, -1, 8}> ()
  q3 = MatMul (x, wq)
  k3 = MatMul (x, wk)
  v3 = MatMul (x, wv)
  q4 = Reshape (q3, size)
  k4 = Reshape (k3, few)
  v4 = Reshape (v3, few)
  q = Transpose <perm = [0, 2, 1, 3]> (q4)
  k2 = Transpose <perm = [0, 2, 1, 3]> (k4)
  v2 = Transpose <perm = [0, 2, 1, 3]> (v4)
  k5 = Unsqueeze (k2, two)
  v5 = Unsqueeze (v2, two)
  ke = Expand (k5, times)
  ve = Expand (v5, times)
  k = Reshape (ke, many)
  v = Reshape (ve, many)
  kt = Transpose <perm = [0, 1, 3, 2]> (k)
  p = MatMul (q, kt)
"""
CAPPED = """
  cap = Constant <value = float {2.0}> ()
  down = Div (p, cap)
  bent = Tanh (down)
  s = Mul (bent, cap)
"""
SHARED_JOIN = JOIN.replace("{0, 0, 8}", "{0, 0, 16}")


def shared_weights() -> Weights:
    random = np.random.default_rng(0)
    shapes = {"wq": (8, 16), "wk": (8, 8), "wv": (8, 8), "wo": (16, 8)}
    return {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def test_queries_share_keys(tmp_path: Path) -> None:
    text = GROUPS + "b = Add (p, mask) w = Softmax (b) seen = MatMul (w, v)" + SHARED_JOIN
    model = build(text, shared_weights(), "float[n, 1, s, s] mask")
    run = fuse(tmp_path, model)
    assert (run.value("fused.GroupQueryAttention"), operators(run)["Expand"]) == (1, 1)  # the lengths of the texts
    assert attributes(run, "GroupQueryAttention") == {"num_heads": 2, "kv_num_heads": 1, "causal": 0, "scale": 1.0}
    (grouped,) = (node for node in onnx.load(run.model).graph.node if node.op_type == "GroupQueryAttention")
    outputs = ["seen_fused", "seen_fused_present_key", "seen_fused_present_value"]
    assert list(grouped.output) == outputs  # CUDA's operator fails without the last two
    run = fuse(tmp_path, model, disable=["grouped_query_attention"])
    assert run.value("fused.MultiHeadAttention") == 1


def test_a_soft_cap(tmp_path: Path) -> None:
    text = GROUPS + CAPPED + "b = Add (s, mask) w = Softmax (b) seen = MatMul (w, v)" + SHARED_JOIN
    model = build(text, shared_weights(), "float[n, 1, s, s] mask")
    run = fuse(tmp_path, model)
    assert attributes(run, "GroupQueryAttention") == {
        "num_heads": 2, "kv_num_heads": 1, "causal": 0, "scale": 1.0, "softcap": 2.0
    }  # fmt: skip
    assert run.notes == ()
    left = fuse(tmp_path, model, disable=["grouped_query_attention"])
    only = "of ONNX Runtime's operators only GroupQueryAttention has a soft cap, and "
    assert reasons(left) == [f"{only}`disable` leaves grouped_query_attention out"]


def test_why_an_attention_is_left(tmp_path: Path) -> None:
    only = "of ONNX Runtime's operators only GroupQueryAttention has a soft cap, and "
    simple = "p = MatMul (q, kt) "
    product = " seen = MatMul (w, v)"
    for scores, reason in (
        (
            simple + CAPPED + "w = Softmax (s)",
            f"{only}that takes heads of one size, a multiple of 8: these have 4 and 4",
        ),
        (
            simple + "p0 = Identity (p) m = Add (p0, mask) " + CAPPED.replace("(p,", "(m,") + "w = Softmax (s)",
            "Add stands before the soft cap of its scores",
        ),
        (
            simple
            + "b = Add (p, mask) f = Constant <value = float[1,2,1,1] {0.5, 0.25}> () m = Mul (b, f) w = Softmax (m)",
            "Add stands before the factor for each head of its scores",
        ),
        (simple + "r = Relu (p) w = Softmax (r)", "Relu stands between its scores and its softmax"),
        (simple + "w = Softmax <axis = 2> (p)", "its softmax is not over the last axis"),
        (simple + "u = Softmax (p) w = Mul (u, mask)", "Mul stands between its softmax and its values"),
        (
            simple
            + "two = Constant <value = float {2.0}> () b = Greater (mask, two) m = Where (b, p, two) w = Softmax (m)",
            "a mask puts 2 in the place of its scores, which does not hide them",
        ),
    ):
        run = fuse(tmp_path, attention(scores + product, "float[n, 1, s, s] mask"))
        assert reasons(run) == [reason], scores
        assert run.notes == (f"method rules left 1 of 1 attentions in pieces: {reason}",)


PLACES = """
  first = Constant <value = int64[1] {0}> ()
  second = Constant <value = int64[1] {1}> ()
  third = Constant <value = int64[1] {2}> ()
  fourth = Constant <value = int64[1] {3}> ()
  last = Constant <value = int64[1] {-1}> ()
  at = Constant <value = int64[1, 1] {0}> ()
"""


@pytest.mark.parametrize(
    ("scores", "reason"),
    [
        (
            'p = MatMul (q, kt) m = Einsum <equation = "bhij->bhij"> (p) w = Softmax (m) seen = MatMul (w, v)',
            "Einsum stands between its scores and its softmax",
        ),
        (
            'p = Einsum <equation = "bhid,bhdj,h->bhij"> (q, kt, two) w = Softmax (p) seen = MatMul (w, v)',
            "Einsum stands between its scores and its softmax",
        ),
        (
            'p = MatMul (q, kt) w = Softmax (p) seen = Einsum <equation = "h,bhij,bhjd->bhid"> (two, w, v)',
            "its values are multiplied by Einsum",
        ),
        (
            "p = MatMul (q, kt) r = ReduceMin (p, first) m = ScatterND (p, at, r) w = Softmax (m) seen = MatMul (w, v)",
            "ScatterND stands between its scores and its softmax",
        ),
        (
            (
                "p = MatMul (q, kt) i = Cast <to = 7> (p) z = Sub (i, i) m = GatherElements <axis = 3> (p, z) "
                "w = Softmax (m) seen = MatMul (w, v)"
            ),
            "GatherElements stands between its scores and its softmax",
        ),
        (
            (
                "p = MatMul (q, kt) most, i = TopK (p, second) u = Softmax (most) "
                "z = Sub (p, p) w = ScatterElements <axis = 3> (z, i, u) seen = MatMul (w, v)"
            ),
            "ScatterElements stands between its softmax and its values",
        ),
        (
            "p = MatMul (q, kt) e = Exp (p) t = ReduceSum (e, last) w = Div (e, t) seen = MatMul (w, v)",
            "Div stands between its softmax and its values",
        ),
        (
            "p = MatMul (q, kt) l = LogSoftmax (p) w = Exp (l) seen = MatMul (w, v)",
            "Exp stands between its softmax and its values",
        ),
        (
            (
                "qs = Unsqueeze (q, fourth) k = Transpose <perm = [0, 2, 1, 3]> (k4) ks = Unsqueeze (k, third) "
                "m = Mul (qs, ks) p = ReduceSum <keepdims = 0> (m, last) w = Softmax (p) seen = MatMul (w, v)"
            ),
            "ReduceSum stands between its scores and its softmax",
        ),
        (
            (
                "p = MatMul (q, kt) w = Softmax (p) ws = Unsqueeze (w, last) vs = Unsqueeze (v, third) "
                "m = Mul (ws, vs) seen = ReduceSum <keepdims = 0> (m, fourth)"
            ),
            "its values are multiplied by Mul",
        ),
    ],
)
def test_scores_and_weights_of_any_operators_are_counted(tmp_path: Path, scores: str, reason: str) -> None:
    run = fuse(tmp_path, attention(PLACES + scores, two=[2, 2]))
    assert run.notes == (f"method rules left 1 of 1 attentions in pieces: {reason}",)


def test_learned_queries_are_counted(tmp_path: Path) -> None:
    """As a pool over tokens has them: the operators take queries for each element of the batch."""
    scores = "p = MatMul (learned, kt) w = Softmax (p) seen = MatMul (w, v)"
    learned = np.random.default_rng(2).standard_normal((1, 2, 3, 4)).astype(np.float32)
    run = fuse(tmp_path, attention(scores, outputs="float[n, t, 8] y", learned=learned))
    assert reasons(run) == ["its queries, keys or values are the same for every element of the batch"]


def test_a_factor_for_each_head(tmp_path: Path) -> None:
    """As Swin 2 has it."""
    scores = "p = MatMul (q, kt) m = Mul (p, factors) b = Add (m, mask) w = Softmax (b) seen = MatMul (w, v)"
    run = fuse(tmp_path, attention(scores, "float[n, 1, s, s] mask", factors=[[[0.25]], [[0.5]]]))
    assert operators(run)["MultiHeadAttention"] == operators(run)["Mul"] == 1


def test_a_mask_of_windows(tmp_path: Path) -> None:
    """As Swin has it: three windows of each image stand in the batch, each with a mask of its own."""
    scores = """
  p = MatMul (q, kt)
  apart = Constant <value = int64[5] {-1, 3, 2, 5, 5}> ()
  together = Constant <value = int64[4] {-1, 2, 5, 5}> ()
  a = Reshape (p, apart)
  b = Add (a, mask)
  s = Reshape (b, together)
  w = Softmax (s)
  seen = MatMul (w, v)
"""
    text = (SPLIT + scores + JOIN).replace("(x, w", "(rows, w")
    text = "size0 = Constant <value = int64[3] {-1, 5, 8}> () rows = Reshape (x, size0)" + text
    mask = "float[1, 3, 1, 5, 5] mask"
    model = build(text, matrices(*MATRICES), mask, "float[m, 5, 8] y", x="float[n, 3, 5, 8] x")
    run = fuse(tmp_path, model)
    assert (operators(run)["Attention"], operators(run)["Softmax"]) == (1, 0)


@pytest.mark.parametrize("floor", ["Max (b, least)", "Max (least, b)", "Clip (b, least)"])
def test_scores_that_are_made_finite(tmp_path: Path, floor: str) -> None:
    """As OPT and XGLM have them."""
    scores = f"p = MatMul (q, kt) b = Add (p, mask) f = {floor} w = Softmax (f) seen = MatMul (w, v)"
    run = fuse(tmp_path, attention(scores, "float[n, 1, s, s] mask", least=np.finfo(np.float32).min))
    assert operators(run) == {"Attention": 1, "MatMul": 1, "Max": 1}


def test_values_before_weights_are_an_attention(tmp_path: Path) -> None:
    """As YOLO's has them."""
    scores = """
  p = MatMul (q, kt)
  w = Softmax (p)
  wt = Transpose <perm = [0, 1, 3, 2]> (w)
  vt = Transpose <perm = [0, 1, 3, 2]> (v)
  turned = MatMul (vt, wt)
  seen = Transpose <perm = [0, 1, 3, 2]> (turned)
"""
    run = fuse(tmp_path, attention(scores))
    assert operators(run) == {"Attention": 1, "MatMul": 1}


def test_what_is_no_attention_is_not_counted(tmp_path: Path) -> None:
    """A choice between experts: scores from a weight; and a distribution over weights."""
    text = """
  raw = MatMul (x, wq)
  gates = Softmax (raw)
  column = Transpose <perm = [0, 2, 1]> (x)
  mixed = MatMul (gates, column)
  again = MatMul (x, column)
  shares = Softmax (again)
  z = MatMul (mixed, x)
  sum = MatMul (z, wk)
  y = MatMul (sum, wv)
"""
    run = fuse(tmp_path, build(text, matrices("wq", "wk", "wv")), dims={"s": [3], "n": [1, 2]})
    assert run.value("attentions") == 0


@pytest.mark.parametrize(
    "between",
    [
        "t = Transpose <perm = [0, 2, 3, 1]> (p) r = MatMul (t, heads) m = Transpose <perm = [0, 3, 1, 2]> (r)",
        "m = Conv (p, kernel)",
        "n = Shape (p) m = ConstantOfShape (n)",
    ],
)
def test_a_layer_between_scores_and_softmax_ends_the_search(tmp_path: Path, between: str) -> None:
    """As the layer before a choice between experts, behind which the attention before it comes."""
    scores = f"p = MatMul (q, kt) {between} w = Softmax (m) seen = MatMul (w, v)"
    heads = np.array([[1, 0.5], [0.25, 1]], np.float32)
    run = fuse(tmp_path, attention(scores, heads=heads, kernel=heads.reshape(2, 2, 1, 1)))
    assert run.value("attentions") == 0


def test_an_attention_in_a_branch_is_counted(tmp_path: Path) -> None:
    inside = SPLIT + FUSIBLE + JOIN.replace("y = MatMul (joined, wo)", "t = Relu (joined)")
    text = f"""
  y = If (chosen) <
    then_branch = g () => (float[n, s, 8] t) {{ {inside} }},
    else_branch = h () => (float[n, s, 8] z) {{ z = Identity (x) }}
  >
"""
    run = fuse(tmp_path, build(text, matrices("wq", "wk", "wv"), "bool chosen"))
    assert run.notes == ("method rules left 1 of 1 attentions in pieces: it is in a branch, a loop or a function",)


def test_a_softmax_of_old_is_over_all_axes_behind_its_own(tmp_path: Path) -> None:
    scores = "p = MatMul (q, kt) w = Softmax (p) seen = MatMul (w, v)"
    model = attention(scores)
    model.opset_import[0].version = 12
    assert reasons(fuse(tmp_path, model)) == ["its softmax is not over the last axis"]
    last = attention(scores.replace("Softmax", "Softmax <axis = 3>"))
    last.opset_import[0].version = 12
    assert fuse(tmp_path, last).value("attentions_left") == 0


@pytest.mark.parametrize("opset", [14, 20])
def test_a_mask_with_one_row_for_all_queries(tmp_path: Path, opset: int) -> None:
    """Shape takes `start` and `end` from operator set 15 on."""
    scores = "p = MatMul (q, kt) b = Add (p, mask) w = Softmax (b) seen = MatMul (w, v)"
    model = attention(scores, "float[n, 1, 1, s] mask")
    model.opset_import[0].version = opset
    run = fuse(tmp_path, model)
    assert run.value("attentions_left") == 0
    assert (operators(run)["Attention"], operators(run)["Expand"]) == (1, 1)


def test_rows_that_see_nothing_stay_zero(tmp_path: Path) -> None:
    scores = """
  nothing = Constant <value = float {0.0}> ()
  mask = Where (shown, nothing, never)
  p = MatMul (q, kt)
  b = Add (p, mask)
  raw = Softmax (b)
  blind = IsNaN (raw)
  w = Where (blind, nothing, raw)
  seen = MatMul (w, v)
"""
    run = fuse(tmp_path, attention(scores, "bool[n, 1, s, s] shown", never=-np.inf))
    assert operators(run)["Attention"] == 1
    assert operators(run)["IsNaN"] == 0


def test_attention_across(tmp_path: Path) -> None:
    text = SPLIT.replace("MatMul (x, wk)", "MatMul (z, wk)").replace("MatMul (x, wv)", "MatMul (z, wv)")
    scores = "s = MatMul (q, kt) w = Softmax (s) seen = MatMul (w, v)"
    run = fuse(tmp_path, build(text + scores + JOIN, matrices(*MATRICES), "float[n, t, 8] z"))
    assert operators(run) == {"MatMul": 4, "MultiHeadAttention": 1}


ROTARY = """
  size = Constant <value = int64[4] {0, 0, 2, 4}> ()
  apart = Reshape (x, size)
  q = Transpose <perm = [0, 2, 1, 3]> (apart)
  one = Constant <value = int64[1] {1}> ()
  last = Constant <value = int64[1] {-1}> ()
  two = Constant <value = int64[1] {2}> ()
  zero = Constant <value = int64[1] {0}> ()
  end = Constant <value = int64[1] {9223372036854775807}> ()
  column = Unsqueeze (positions, two)
  angle = Mul (column, frequencies)
  both = Concat <axis = -1> (angle, SECOND)
  cosines = Cos (both)
  sines = Sin (both)
  cos = Unsqueeze (cosines, one)
  sin = Unsqueeze (sines, one)
  first = Slice (q, zero, two, last)
  second = Slice (q, two, end, last)
  minus = Neg (second)
  turned = Concat <axis = -1> (minus, first)
  straight = Mul (q, cos)
  across = Mul (turned, sin)
  y = Add (straight, across)
"""
FREQUENCIES = {"frequencies": np.array([1.0, 0.25], np.float32)}


@pytest.mark.parametrize(("positions", "nodes"), [("float[1, s] positions", 0), ("float[n, s] positions", 1)])
def test_rotary_embedding(tmp_path: Path, positions: str, nodes: int) -> None:
    text = ROTARY.replace("SECOND", "angle")
    run = fuse(tmp_path, build(text, FREQUENCIES, positions, "float[n, 2, s, 4] y"))
    counts = operators(run)
    assert (counts["RotaryEmbedding"], counts["Range"], counts["Concat"]) == (1, nodes, 0)


def test_halves_that_differ_are_no_rotary_embedding(tmp_path: Path) -> None:
    text = ROTARY.replace("SECOND", "other").replace("  both =", "  other = Mul (column, others)\n  both =")
    weights = FREQUENCIES | {"others": np.array([0.5, 0.125], np.float32)}
    run = fuse(tmp_path, build(text, weights, "float[1, s] positions", "float[n, 2, s, 4] y"))
    assert operators(run)["RotaryEmbedding"] == 0


def test_a_sum_that_is_read_twice_is_an_output_of_the_norm(tmp_path: Path) -> None:
    text = "sum = Add (x, other) norm = LayerNormalization (sum, scale, shift) y = Add (norm, sum)"
    run = fuse(tmp_path, build(text, vectors("scale", "shift"), "float[n, s, 8] other"))
    assert operators(run) == {"SkipLayerNormalization": 1, "Add": 1}


def test_a_broadcast_sum_stays(tmp_path: Path) -> None:
    text = "sum = Add (x, other) y = LayerNormalization (sum, scale, shift)"
    run = fuse(tmp_path, build(text, vectors("scale", "shift"), "float[1, s, 8] other"))
    assert operators(run) == {"LayerNormalization": 1, "Add": 1}


def test_rms_normalization_and_the_sum_before_it(tmp_path: Path) -> None:
    norm = """
  sum = Add (x, other)
  two = Constant <value = float {2.0}> ()
  last = Constant <value = int64[1] {-1}> ()
  epsilon = Constant <value = float {1e-6}> ()
  square = Pow (sum, two)
  mean = ReduceMean (square, last)
  more = Add (mean, epsilon)
  root = Sqrt (more)
  inverse = Reciprocal (root)
  normal = Mul (sum, inverse)
  scaled = Mul (scale, normal)
  y = Add (scaled, sum)
"""
    run = fuse(tmp_path, build(norm, vectors("scale"), "float[n, s, 8] other"))
    assert operators(run) == {"SkipSimplifiedLayerNormalization": 1, "Add": 1}
    alone = fuse(tmp_path, build(norm.replace("Add (x, other)", "Identity (x)"), vectors("scale")))
    assert operators(alone) == {"SimplifiedLayerNormalization": 1, "Add": 1}


def test_layer_norms_of_an_operator_set_that_has_none(tmp_path: Path) -> None:
    norm = """
  sum = Add (x, other)
  two = Constant <value = float {2.0}> ()
  epsilon = Constant <value = float {1e-5}> ()
  mean = ReduceMean <axes = [-1]> (sum)
  away = Sub (sum, mean)
  square = Pow (away, two)
  variance = ReduceMean <axes = [-1]> (square)
  more = Add (variance, epsilon)
  width = Sqrt (more)
  normal = Div (away, width)
  scaled = Mul (normal, scale)
  y = Add (scaled, shift)
"""

    def fused(text: str, inputs: str = "") -> StageRun:
        model = build(text, vectors("scale", "shift"), inputs, opset=14)
        return fuse(tmp_path, model)

    assert operators(fused(norm, "float[n, s, 8] other")) == {"SkipLayerNormalization": 1}
    alone = fused(norm.replace("Add (x, other)", "Relu (x)"))
    assert operators(alone)["Sqrt"] == 1
    assert "operator set 14 has no LayerNormalization: layer norms stay in pieces" in alone.log.splitlines()


def test_a_bias_joins_the_activation(tmp_path: Path) -> None:
    run = fuse(tmp_path, build("sum = Add (x, bias) y = Gelu (sum)", vectors("bias")))
    assert operators(run) == {"BiasGelu": 1}


UNBIASED = """
  flat = Constant <value = int64[2] {-1, 8}> ()
  size = Shape (x)
  norm = LayerNormalization (x, scale, shift)
  rows = Reshape (norm, flat)
  product = Gemm (rows, weight)
  y = Reshape (product, size)
"""


def test_where_the_optimizer_crashes(tmp_path: Path) -> None:
    model = build(UNBIASED, matrices("weight") | vectors("scale", "shift"))
    with pytest.raises(StageFailed) as caught:  # it takes for granted that a Gemm of GPT-2 has a bias
        fuse(tmp_path, model, method="onnxruntime", model_type="gpt2")
    assert str(caught.value) == (
        "ONNX Runtime's optimizer cannot handle the model as gpt2\n"
        "  IndexError: list index out of range\n"
        "  hint: use `method: rules`, try another `model_type`, or leave fusions out: `disable: [...]`; "
        "the log has the whole message"
    )
    run = fuse(tmp_path, model, method="auto", model_type="gpt2")
    assert operators(run) == {"LayerNormalization": 1, "MatMul": 1}
    assert "fused by method rules" in run.log


def fail_to_infer(*_: object, **__: object) -> None:
    """Fail as an inference of shapes may."""
    raise AssertionError("no shape")


@pytest.fixture
def no_symbolic_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ONNX Runtime's inference of shapes fail, which the rules begin with."""
    monkeypatch.setattr("orun.stages._graph.symbolic.infer", fail_to_infer)


@pytest.fixture
def no_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ONNX's inference of shapes fail as well."""
    monkeypatch.setattr("orun.stages._graph.symbolic.infer", fail_to_infer)
    monkeypatch.setattr("onnx.shape_inference.infer_shapes", fail_to_infer)


@pytest.mark.usefixtures("no_symbolic_shapes")
def test_where_the_symbolic_inference_fails_that_of_onnx_serves(tmp_path: Path) -> None:
    run = fuse(tmp_path, attention(FUSIBLE))
    assert operators(run) == {"Attention": 1, "MatMul": 1}
    assert run.log.splitlines()[0] == (
        "ONNX Runtime's inference cannot follow the model, ONNX's own is used: AssertionError: no shape"
    )


@pytest.mark.usefixtures("no_shapes")
def test_what_the_rules_cannot_follow_is_told(tmp_path: Path) -> None:
    with pytest.raises(StageFailed) as caught:
        fuse(tmp_path, build("sum = Add (x, bias) y = Gelu (sum)", vectors("bias")))
    assert str(caught.value) == (
        "the shapes of the model cannot be worked out\n"
        "  AssertionError: no shape\n"
        "  hint: simplify the model first; the log has the whole message"
    )


@pytest.mark.usefixtures("no_shapes")
def test_a_method_that_failed_is_named_when_the_other_leaves_some_in_pieces(tmp_path: Path) -> None:
    run = fuse(tmp_path, attention(FUSIBLE), method="auto")
    assert run.notes == (
        "method rules failed: the shapes of the model cannot be worked out: AssertionError: no shape",
        "method onnxruntime left 1 of 1 attentions in pieces: ONNX Runtime's optimizer does not know its pattern",
    )


@pytest.mark.usefixtures("no_shapes")
def test_when_every_method_fails_the_first_says_why(tmp_path: Path) -> None:
    model = build(UNBIASED, matrices("weight") | vectors("scale", "shift"))
    with pytest.raises(StageFailed) as caught:
        fuse(tmp_path, model, method="auto", model_type="gpt2")
    assert caught.value.problem == "ONNX Runtime's optimizer cannot handle the model as gpt2"
    assert caught.value.why == "IndexError: list index out of range"


FUSIBLE = "p = MatMul (q, kt) c = Constant <value = float {0.5}> () s = Mul (p, c) w = Softmax (s) seen = MatMul (w, v)"
# A second attention over what the first yields; no operator takes what stands before its softmax.
SECOND = """
  b_kt = Transpose <perm = [0, 2, 3, 1]> (q4)
  b_p = MatMul (q, b_kt)
  b_b = Add (b_p, mask)
  b_s = Relu (b_b)
  b_w = Softmax (b_s)
  b_seen = MatMul (b_w, v)
  b_back = Transpose <perm = [0, 2, 1, 3]> (b_seen)
  z = Reshape (b_back, width)
"""


def test_of_methods_that_leave_some_in_pieces_the_one_that_leaves_fewer_is_taken(tmp_path: Path) -> None:
    both = build(
        SPLIT + FUSIBLE + JOIN + SECOND,
        matrices(*MATRICES),
        "float[n, 1, s, s] mask",
        "float[n, s, 8] y, float[n, s, 8] z",
    )
    run = fuse(tmp_path, both, method="auto")
    assert "method onnxruntime leaves 2 attentions in pieces" in run.log
    assert "method rules leaves 1 attentions in pieces" in run.log
    assert (run.value("attentions"), run.value("attentions_left")) == (2, 1)
    assert run.notes == (
        "method rules left 1 of 2 attentions in pieces: Relu stands between its scores and its softmax",
    )


GROUPED = """
<ir_version: 9, opset_import: ["" : 20, "com.microsoft" : 1]>
grouped (float[1, s, 16] query, float[1, s, 8] key, float[1, s, 8] value) => (float[1, s, 16] y)
<float[1, 1, 0, 8] none = {}>
{
  shape = Shape <start = 1, end = 2> (query)
  total = Cast <to = 6> (shape)
  one = Constant <value = int32[1] {1}> ()
  last = Sub (total, one)
  first = Constant <value = int64[1] {0}> ()
  axes = Constant <value = int64[1] {1}> ()
  lengths = Identity (last)
  whole = Squeeze (total)
  y, past_key, past_value = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1>
    (query, key, value, none, none, lengths, whole)
}
"""


def test_grouped_queries_are_an_attention(tmp_path: Path) -> None:
    """As the exporters of generative models write it; nothing is left to fuse."""
    model = parser.parse_model(GROUPED)
    run = fuse(tmp_path, model, method="rules", expect={"GroupQueryAttention": 1})
    assert (run.value("attentions"), run.value("attentions_left")) == (1, 0)
    assert run.value("fused.GroupQueryAttention") == 1


@pytest.mark.slow
@pytest.mark.parametrize("package", ["onnxruntime.transformers.", ""])
def test_nodes_are_not_listed_anew_for_each_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    """ONNX Runtime's fusions list all of them for each Add or Mul: minutes in a model of 10,000."""
    listed = importlib.import_module(f"{package}onnx_model").OnnxModel
    nodes, calls = listed.nodes, list[None]()

    def counted(model: object) -> object:
        calls.append(None)
        return nodes(model)

    monkeypatch.setattr(listed, "nodes", counted)

    def lists(count: int) -> int:
        calls.clear()
        steps = [f"v{place + 1} = {'Mul' if place % 2 else 'Add'} (v{place}, w)" for place in range(count)]
        text = "v0 = Sigmoid (x) " + " ".join(steps) + f" y = Relu (v{count})"
        method = "rules" if package else "onnxruntime"
        fuse(tmp_path, build(text, vectors("w")), method=method, atol=10.0)
        return len(calls)

    assert lists(60) == lists(20) < 100


def test_a_shared_constant_that_no_rule_read_is_stored_again_for_the_next() -> None:
    edit = Rewriter(ir.from_proto(build("y = Relu (x)", {})))
    removed = edit.share_integers(5)
    RemoveUnusedNodesPass()(edit.model)
    kept = edit.share_integers(5)
    assert edit.graph.initializers[str(kept.name)] is kept is not removed
