"""Sizes at which a model runs, where its graph does not tell them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from orun.scaffold.inspection import inspect_model
from orun.scaffold.recipe import list_stages
from orun.scaffold.request import Request
from orun.scaffold.targets import find_target
from orun.scaffold.working_sizes import find_working_sizes
from orun.stages._graph.signature import build_inputs

Weights = Mapping[str, tuple[int, ...]]
PATCHES = "p = Conv <strides = [32, 32]> (x, k)  "


def sizes_of(
    folder: Path, axes: str, body: str, weights: Weights, known: Mapping[str, Sequence[int]]
) -> dict[str, tuple[int, ...]]:
    """Return the sizes that are found for a model of one input, `x`, and one output, `y`."""
    text = f'<ir_version: 9, opset_import: ["" : 17]> main ({axes} x) => (y) {{ {body} }}'
    model = onnx.parser.parse_model(text)
    for name, shape in weights.items():
        model.graph.initializer.append(numpy_helper.from_array(np.ones(shape, np.float32), name))
    onnx.save(model, folder / "model.onnx")
    return find_working_sizes(folder / "model.onnx", build_inputs(model), ["y"], known, {})


@pytest.mark.parametrize(
    ("axes", "body", "weights", "sizes"),
    [
        pytest.param(
            "float[batch, c, h, w]",
            "f = Flatten(x)  y = MatMul(f, k)",
            {"k": (3 * 96 * 96, 2)},
            {"c": (3,), "h": (96,), "w": (96,)},
            id="one size",
        ),
        pytest.param(
            "float[batch, c, h, w]",
            f"{PATCHES}y = ReduceMean <axes = [2, 3]> (p)",
            {"k": (4, 3, 32, 32)},
            {"c": (3,), "h": (224, 256), "w": (224, 256)},
            id="any size that is large enough",
        ),
        pytest.param(
            "float[batch, c, h, w]",
            "y = Conv(x, k)",
            {"k": (4, 1, 3, 3)},
            {"c": (1,), "h": (224, 256), "w": (224, 256)},
            id="grey images",
        ),
        pytest.param(
            "float[batch, h, w, 3]",
            "t = Transpose <perm = [0, 3, 1, 2]> (x)  y = Conv <strides = [32, 32]> (t, k)",
            {"k": (4, 3, 32, 32)},
            {"h": (224, 256), "w": (224, 256)},
            id="channels last",
        ),
        pytest.param("float[batch, c, 8, 8]", "y = Conv(x, k)", {"k": (4, 3, 3, 3)}, {"c": (3,)}, id="channels alone"),
        pytest.param("float[batch, c, h, w]", "y = Abs(x)", {}, {}, id="any size"),
        pytest.param("float[batch, c, h, w]", "y = Conv(x, k)", {"k": (4, 7, 3, 3)}, {}, id="none of these sizes"),
        pytest.param(
            "int64[batch, length]",
            "e = Gather(l, x)  n = Shape <start = 1> (x)  o = Constant <value_ints = [0]> ()  p = Slice(k, o, n)  "
            "y = Add(e, p)",
            {"k": (40, 4), "l": (9, 4)},
            {"length": (16, 32)},
            id="few tokens",
        ),
        pytest.param(
            "float[batch, samples]",
            "o = Constant <value_ints = [1]> ()  u = Unsqueeze(x, o)  y = Conv <strides = [320]> (u, k)",
            {"k": (4, 1, 400)},
            {"samples": (16000, 24000)},
            id="sound",
        ),
        pytest.param(
            "float[batch, bins, frames]",
            "c = Conv <pads = [1, 1], strides = [2]> (x, k)  y = Add(c, p)",
            {"k": (4, 128, 3), "p": (1, 4, 1500)},
            {"bins": (128,), "frames": (3000,)},
            id="spectrum, as Whisper takes it",
        ),
        pytest.param(
            "float[batch, frames, bins]",
            "o = Constant <value_ints = [1]> ()  u = Unsqueeze(x, o)  c = Conv <strides = [16, 16]> (u, k)  "
            "y = Add(c, p)",
            {"k": (4, 1, 16, 16), "p": (1, 4, 64, 8)},
            {"frames": (1024,), "bins": (128,)},
            id="spectrum, frames first",
        ),
        pytest.param("float[batch, length, f]", "y = MatMul(x, k)", {"k": (9, 9)}, {}, id="no image"),
    ],
)  # fmt: skip
def test_sizes_are_found_by_running(
    tmp_path: Path, axes: str, body: str, weights: Weights, sizes: dict[str, tuple[int, ...]]
) -> None:
    assert sizes_of(tmp_path, axes, body, weights, {}) == sizes


def test_a_vision_transformer_whose_axes_all_have_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As hubs export it. ONNX does not infer the length of what is behind the token, which is expanded to the batch."""
    body = """
        p = Conv <strides = [16, 16]> (x, k)  f = Reshape(p, rows)  t = Transpose <perm = [0, 2, 1]> (f)
        n = Shape <start = 0, end = 1> (x)  u = Concat <axis = 0> (n, kept)  m = Equal(u, minus)  o = Where(m, ones, u)
        c = Expand(token, o)  q = Concat <axis = 1> (c, t)  y = Add(q, positions)
    """
    shapes = "int64[3] rows = {0, 8, -1}, int64[2] kept = {-1, -1}, int64[1] minus = {-1}, int64[3] ones = {1, 1, 1}"
    graph = f"vit (float[batch, channels, height, width] x) => (y) <{shapes}>"
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17]> {graph} {{ {body} }}')
    for name, shape in {"k": (8, 3, 16, 16), "token": (1, 1, 8), "positions": (1, 197, 8)}.items():
        model.graph.initializer.append(numpy_helper.from_array(np.ones(shape, np.float32), name))
    monkeypatch.chdir(tmp_path)
    onnx.save(model, "vit.onnx")
    facts = inspect_model("vit.onnx", Path(), (), trust=False)
    assert facts.sizes == {"height": (224,), "width": (224,)}
    conversion, *_, latency, _, _ = list_stages(Request(facts, find_target("cpu")), {})
    assert conversion.parameters == {"path": "vit.onnx", "dims": {"height": [224], "width": [224]}}
    assert latency.parameters == {"target": "cpu"}


def test_known_sizes_are_kept(tmp_path: Path) -> None:
    known = {"batch": (4,), "c": (7,)}
    body, weights = f"{PATCHES}s = Constant <value_ints = [4, -1]> ()  y = Reshape(p, s)", {"k": (4, 7, 32, 32)}
    assert sizes_of(tmp_path, "float[batch, c, h, w]", body, weights, known) == {"h": (224, 256), "w": (224, 256)}
    assert sizes_of(tmp_path, "float[batch, c, h, w]", body, weights, {**known, "h": (64,), "w": (96,)}) == {}


def test_a_model_that_cannot_be_opened_has_no_sizes(tmp_path: Path) -> None:
    """The first stage says so."""
    assert sizes_of(tmp_path, "float[batch, c, h, w]", "y = Conv <strides = [2]> (x, k)", {"k": (4, 3)}, {}) == {}
