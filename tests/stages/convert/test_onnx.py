from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper, parser
from onnxruntime import InferenceSession

from orun.core.metrics import Metric
from orun.errors import OrunError
from orun.stages._graph import io as onnx_io
from orun.stages._graph.input_domain import InputDomain, read_domain, write_domain
from tests.stages.models import ADD, WORDY, parse
from tests.stages.support import answers, run_stage


def test_the_same_model_whatever_lies_beside_it(tmp_path: Path) -> None:
    onnx.save(parse(ADD), tmp_path / "add.onnx")
    (tmp_path / "README").write_text("not part of the model")
    run = run_stage("convert/onnx", tmp_path, {"path": "add.onnx"})
    assert [file.name for file in run.output.iterdir()] == ["model.onnx"]
    assert onnx.load(run.model) == parse(ADD)
    size = run.model.stat().st_size
    assert run.metrics == {"size": Metric(size, "B", "lower"), "nodes": Metric(1, better="lower")}


def test_external_data_is_gathered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_io, "EXTERNAL_FROM", 10)
    onnx.save(parse(WORDY), tmp_path / "wordy.onnx", save_as_external_data=True, location="weights", size_threshold=10)
    run = run_stage("convert/onnx", tmp_path, {"path": "wordy.onnx"})
    assert sorted(file.name for file in run.output.iterdir()) == ["model.onnx", "model.onnx.data"]
    assert onnx.load(run.model).graph.initializer[0].raw_data == parse(WORDY).graph.initializer[0].raw_data
    assert run.value("size") == run.model.stat().st_size + 64


def test_a_pointer_of_git_lfs_and_a_folder(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "big.onnx").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n")
    for path, message in (
        ("models/big.onnx", "big.onnx is not an ONNX model\n  it is a pointer of Git LFS\n  hint: git lfs pull"),
        ("models", "models is a folder, not an ONNX model\n  it holds big.onnx"),
    ):
        with pytest.raises(OrunError) as caught:
            run_stage("convert/onnx", tmp_path, {"path": path})
        assert str(caught.value) == message


def test_a_digest_that_holds_and_one_that_does_not(tmp_path: Path) -> None:
    onnx.save(parse(ADD), tmp_path / "add.onnx")
    digest = hashlib.sha256((tmp_path / "add.onnx").read_bytes()).hexdigest()
    assert run_stage("convert/onnx", tmp_path, {"path": "add.onnx", "digest": digest.upper()}).model.is_file()
    with pytest.raises(OrunError) as caught:
        run_stage("convert/onnx", tmp_path, {"path": "add.onnx", "digest": "0" * 64})
    assert str(caught.value) == (
        "add.onnx is not the file that its digest names\n"
        f"  SHA-256 is {digest}\n"
        f"  expected {'0' * 64}\n"
        "  hint: check where the file comes from; write the new digest into the pipeline if it is right"
    )


def test_digests_of_external_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_io, "EXTERNAL_FROM", 10)
    onnx.save(parse(WORDY), tmp_path / "wordy.onnx", save_as_external_data=True, location="weights", size_threshold=10)
    digest = hashlib.sha256((tmp_path / "weights").read_bytes()).hexdigest()
    assert run_stage("convert/onnx", tmp_path, {"path": "wordy.onnx", "data": {"weights": digest}}).model.is_file()
    for name, message in (
        ("weights", "weights is not the file that its digest names"),
        ("weigths", "data: the model has no 'weigths'\n  it has weights"),
    ):
        with pytest.raises(OrunError) as caught:
            run_stage("convert/onnx", tmp_path, {"path": "wordy.onnx", "data": {name: "0" * 64}})
        assert str(caught.value).startswith(message)


def test_what_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "cat.onnx").write_bytes(b"meow")
    with pytest.raises(OrunError, match=r"^cat.onnx is not an ONNX model"):
        run_stage("convert/onnx", tmp_path, {"path": "cat.onnx"})


DECODER = """
<ir_version: 9, opset_import: ["" : 20]>
decoder (float[batch, past_length] before, float[batch, length] now, float[batch, total_length] mask)
  => (float[batch, total_length] y)
{ all = Concat <axis = 1> (before, now)  y = Mul (all, mask) }
"""


def test_axes_that_follow_from_others_are_said(tmp_path: Path) -> None:
    model = parse(DECODER)
    model.graph.input[0].type.tensor_type.shape.dim[0].ClearField("dim_param")
    onnx.save(model, tmp_path / "decoder.onnx")
    names = {"total_length": "past_length + length", "before.0": "batch"}
    run = run_stage("convert/onnx", tmp_path, {"path": "decoder.onnx", "axes": names})
    graph = onnx.load(run.model).graph
    shapes = [[axis.dim_param for axis in value.type.tensor_type.shape.dim] for value in (*graph.input, *graph.output)]
    both = ["batch", "past_length + length"]
    assert shapes == [["batch", "past_length"], ["batch", "length"], both, both]
    simple = run_stage("optimize/simplify", tmp_path, inputs={"model": run.output})
    assert simple.value("max_abs_error") == 0
    plain = run_stage("convert/onnx", tmp_path, {"path": "decoder.onnx"})
    with pytest.raises(OrunError, match="the model before it cannot run random values at"):
        run_stage("optimize/simplify", tmp_path, inputs={"model": plain.output})


def test_renamed_axes_keep_their_sizes_and_formulas(tmp_path: Path) -> None:
    model = parse(DECODER.replace("mask", "mask, float[n, 3] extra", 1))
    for value in (model.graph.input[2], model.graph.output[0]):
        value.type.tensor_type.shape.dim[1].dim_param = "past_length + length"
    write_domain(model, InputDomain({}, {"batch": (2,), "length": (16, 32)}))
    onnx.save(model, tmp_path / "decoder.onnx")
    run = run_stage("convert/onnx", tmp_path, {"path": "decoder.onnx", "axes": {"length": "tokens", "batch": "rows"}})
    renamed = onnx.load(run.model)
    both = ["rows", "past_length + tokens"]
    assert [[axis.dim_param for axis in value.type.tensor_type.shape.dim] for value in renamed.graph.input] == [
        ["rows", "past_length"], ["rows", "tokens"], both, ["n", ""],
    ]  # fmt: skip
    assert read_domain(renamed).sizes == {"rows": (2,), "tokens": (16, 32)}


def test_axes_that_are_not_there_or_have_no_name(tmp_path: Path) -> None:
    onnx.save(parse(DECODER), tmp_path / "decoder.onnx")
    for names, message in (
        (
            {"total": "n"},
            "axes: the model has no 'total'\n  it has batch, length, past_length, total_length",
        ),
        ({"total_length": ""}, "axes: a name is empty\n  hint: give one, or a sum such as `past + sequence`"),
    ):
        with pytest.raises(OrunError) as caught:
            run_stage("convert/onnx", tmp_path, {"path": "decoder.onnx", "axes": names})
        assert str(caught.value) == message


TWICE = '<ir_version: 9, opset_import: ["" : 20]> twice (float[n, 3] x) => (float[n, 3] y) { h = Abs (x)  y = Neg (h) }'


def test_nodes_in_any_order_and_outputs_without_a_shape(tmp_path: Path) -> None:
    """ONNX Runtime takes both, and ONNX's checker neither."""
    model = parse(TWICE)
    first, second = (onnx.NodeProto.FromString(node.SerializeToString()) for node in model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([second, first])
    model.graph.output[0].type.tensor_type.ClearField("shape")
    onnx.save(model, tmp_path / "loose.onnx")
    result = onnx.load(run_stage("convert/onnx", tmp_path, {"path": "loose.onnx"}).model)
    assert [node.op_type for node in result.graph.node] == ["Abs", "Neg"]
    assert [axis.dim_param or axis.dim_value for axis in result.graph.output[0].type.tensor_type.shape.dim] == ["n", 3]


def test_an_input_without_a_shape(tmp_path: Path) -> None:
    model = parse(TWICE)
    model.graph.input[0].type.tensor_type.ClearField("shape")
    onnx.save(model, tmp_path / "loose.onnx")
    with pytest.raises(OrunError) as caught:
        run_stage("convert/onnx", tmp_path, {"path": "loose.onnx"})
    assert str(caught.value) == (
        "input 'x' of the model has no shape\n"
        "  hint: write one into the file, with names for dynamic axes: onnx.helper.make_tensor_value_info"
    )


SPARSE = '<ir_version: 9, opset_import: ["" : 20]> g (float[n, 2] x) => (float[n, 4] y) { y = MatMul (x, w) }'
CHAIN = """
<ir_version: 9, opset_import: ["" : 20]>
chain (float[n] x) => (float[n] y) { a = Abs (x)  b = Abs (a)  c = Abs (b)  d = Abs (c)  y = Abs (d) }
"""


@pytest.mark.parametrize("linear", [False, True])
def test_sparse_weights_are_stored_in_full(tmp_path: Path, linear: bool) -> None:
    """ONNX Runtime reads them, most tools do not: in both forms that places have."""
    model = parser.parse_model(SPARSE)
    places = np.array([1, 6] if linear else [[0, 1], [1, 2]], np.int64)
    model.graph.sparse_initializer.append(
        helper.make_sparse_tensor(
            numpy_helper.from_array(np.array([2, 3], np.float32), "w"), numpy_helper.from_array(places), [2, 4]
        )
    )
    onnx.save(model, tmp_path / "sparse.onnx")
    run = run_stage("convert/onnx", tmp_path, {"path": "sparse.onnx"})
    assert run.log == "1 sparse weight: stored in full, as other tools read them\n"
    result = onnx.load(run.model)
    assert not result.graph.sparse_initializer
    assert numpy_helper.to_array(result.graph.initializer[0]).tolist() == [[0, 2, 0, 0], [0, 0, 3, 0]]
    feed = {"x": np.ones((1, 2), np.float32)}
    before, after = (answers(path, feed)[0] for path in (tmp_path / "sparse.onnx", run.model))
    assert after.tolist() == before.tolist() == [[0, 2, 3, 0]]
    assert run_stage("quantize/dynamic", tmp_path, inputs={"model": run.output}).value("quantized") == 1


def test_nodes_of_one_name_get_names_of_their_own(tmp_path: Path) -> None:
    """ONNX Runtime refuses them, its checker does not ask."""
    model = parse(CHAIN)
    for node, name in zip(model.graph.node, ["abs", "abs", "", "abs_1", ""], strict=True):
        node.name = name
    onnx.save(model, tmp_path / "alike.onnx")
    with pytest.raises(Exception, match=r"two nodes with same node name \(abs\)"):
        InferenceSession(tmp_path / "alike.onnx")
    run = run_stage("convert/onnx", tmp_path, {"path": "alike.onnx"})
    assert [node.name for node in onnx.load(run.model).graph.node] == ["abs", "abs_2", "", "abs_1", ""]
    assert run.log == "1 node: renamed, because ONNX Runtime takes no two of one name\n"
    assert answers(run.model, {"x": np.array([-3], np.float32)})[0] == [3]


def test_sizes_that_weights_fix(tmp_path: Path) -> None:
    """Stages that make up inputs try no other; a declared size wins."""
    model = '<ir_version: 9, opset_import: ["" : 17]> g (float[n,f,k] x) => (float[n,f,1] y) <float[2,1] w = {1, 2}> { y = MatMul (x, w) }'  # noqa: E501
    onnx.save(onnx.parser.parse_model(model), tmp_path / "m.onnx")
    for params, sizes in (({}, {"k": (2,)}), ({"dims": {"f": [3], "k": [4]}}, {"k": (4,), "f": (3,)})):
        result = run_stage("convert/onnx", tmp_path, {"path": "m.onnx", **params}, root=tmp_path)
        assert read_domain(onnx.load(result.model)).sizes == sizes


def test_a_graph_without_a_name(tmp_path: Path) -> None:
    """ONNX Runtime runs it, and the ONNX checker refuses it."""
    model = parse(TWICE)
    model.graph.name = ""
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    run = run_stage("convert/onnx", tmp_path, {"path": "model.onnx"}, root=tmp_path)
    assert onnx.load(run.model).graph.name == "graph"
