from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from orun.errors import UsageError
from orun.stages._graph import io as onnx_io
from tests.stages.models import ADD, WORDY, parse, weights_of

BRANCH = """
<ir_version: 9, opset_import: ["" : 20]>
branch (bool c) => (float y)
{
  y = If (c) <
    then_branch = g1 () => (float a) { a = Constant <value = float {1.0}> () },
    else_branch = g2 () => (float b) { b = Constant <value = float {2.0}> () }
  >
}
"""


def external(folder: Path, location: str) -> Path:
    """A model in `folder` with external data at `location`."""
    model = parse(ADD)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    folder.mkdir(exist_ok=True)
    onnx.save(model, folder / "model.onnx")
    return folder / "model.onnx"


def test_saved_whole_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx_io.save(parse(WORDY), path)
    assert onnx_io.load(path) == parse(WORDY)
    assert onnx_io.list_external_files(onnx_io.load_graph(path)) == ()


def test_external_data_in_one_file_that_the_model_names(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    model = parse(ADD)
    weight = np.arange(3 * 400, dtype=np.float32).reshape(400, 3)
    model.graph.initializer.append(numpy_helper.from_array(weight, "unused"))
    onnx_io.save(model, path, external=True)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.onnx", "model.onnx.data"]
    assert onnx_io.list_external_files(onnx_io.load_graph(path)) == ("model.onnx.data",)
    again = weights_of(onnx_io.load(path))
    assert again["one"].tolist() == [1, 1, 1]
    assert np.array_equal(again["unused"], weight)


def test_too_much_for_one_file_goes_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_io, "PROTO_LIMIT", 50)
    monkeypatch.setattr(onnx_io, "EXTERNAL_FROM", 10)
    onnx_io.save(parse(WORDY), tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx.data").stat().st_size == 64


@pytest.mark.parametrize("location", ["/etc/hostname", "../secret", "a/../../secret", "..\\secret", "C:\\secret"])
def test_external_data_outside_the_folder_is_refused(tmp_path: Path, location: str) -> None:
    (tmp_path / "secret").write_bytes(bytes(12))
    path = external(tmp_path / "in", location)
    with pytest.raises(UsageError) as caught:
        onnx_io.load(path)
    assert str(caught.value) == (
        "model.onnx names external data outside its folder\n"
        f"  location {location!r}; a model may only read files in or below its own folder"
    )


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(12))
    path = external(tmp_path / "in", "weights")
    (path.parent / "weights").symlink_to(tmp_path / "secret")
    with pytest.raises(UsageError, match="outside its folder"):
        onnx_io.load(path)


def test_external_data_that_is_missing(tmp_path: Path) -> None:
    path = external(tmp_path, "weights")
    with pytest.raises(UsageError) as caught:
        onnx_io.load(path)
    assert str(caught.value) == (
        "model.onnx names external data that is missing\n"
        "  no file 'weights' next to it\n"
        "  hint: put the file there under this name: a model that is renamed still names its data as before"
    )


NO_MODELS = {
    b"": ("it is empty", "export it anew, or copy it again"),
    b"\x00\x01 no model": (
        "Error parsing message with type 'onnx.ModelProto'",
        "export it anew, or copy it again: it may have been cut off",
    ),
    b"PK\x03\x04": ("it is a zip archive, as PyTorch and Keras write", "name it after its format: .pt2, .pt or .keras"),
    b"\n<!DOCTYPE html>\n<html>": ("it is a web page", "download the file itself, not the page that shows it"),
    "für später\n".encode() * 99: (
        "it is a text file, which begins with 'für später'", "name a file that an exporter wrote",
    ),
}  # fmt: skip


@pytest.mark.parametrize("data", NO_MODELS)
def test_what_is_no_model(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "model.onnx").write_bytes(data)
    with pytest.raises(UsageError) as caught:
        onnx_io.load(tmp_path / "model.onnx")
    why, hint = NO_MODELS[data]
    assert (caught.value.problem, caught.value.why.partition(":")[0], caught.value.hint) == (
        "model.onnx is not an ONNX model", why, hint,
    )  # fmt: skip


def test_nodes_and_tensors_of_branches_count(tmp_path: Path) -> None:
    model = parse(BRANCH)
    assert [node.op_type for node in onnx_io.iter_nodes(model)] == ["If", "Constant", "Constant"]
    assert [tensor.float_data[0] for tensor in onnx_io.iter_tensors(model)] == [1.0, 2.0]
    onnx_io.save(model, tmp_path / "model.onnx")
    size = (tmp_path / "model.onnx").stat().st_size
    assert onnx_io.weigh(tmp_path / "model.onnx") == {
        "size": size,
        "nodes": 3,
    }
