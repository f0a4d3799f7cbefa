"""release/web: a folder that a plain web server hands out, and a page that runs the model in a real browser."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from PIL import Image

from orun.errors import StageFailed
from orun.measure.web.static_server import ISOLATION, serve_folders
from orun.measure.web.tensors import decode_tensor
from orun.stages.release._manifest import verify_bundle
from tests.report.browser import Tab, browser
from tests.stages.models import parse
from tests.stages.support import StageRun, artifact, digest, run_stage
from tests.web import VERSION, install_web, require_program

from .support import provenance_file

TEXTS = """
<ir_version: 8, opset_import: ["" : 17]>
g (string[N] words, int64[N, 2] ids) => (string[N] same, int64[N, 2] sums) {
  same = Identity(words)
  sums = Add(ids, ids)
}
"""
HALF = """
<ir_version: 8, opset_import: ["" : 17]>
g (float16[2] x, bool[2] b) => (float16[2] y, bool[2] c) { y = Add(x, x) c = Not(b) }
"""
PICTURE = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 3, H, W] picture) => (float[1, 3, H, W] pixels, float[1, 3] scores) {
  pixels = Identity(picture)
  mean = GlobalAveragePool(picture)
  scores = Flatten(mean)
}
"""
READY = "import('/page.mjs').then(page => page.ready)"
RUN = "document.querySelector('form').requestSubmit(), import('/page.mjs').then(page => page.latest)"
CHOOSE = """
(() => {
  const bytes = Uint8Array.from(atob('%s'), character => character.charCodeAt(0));
  const files = new DataTransfer();
  files.items.add(new File([bytes], 'picture.png', {type: 'image/png'}));
  document.querySelector('[type=file]').files = files.files;
})()
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with onnxruntime-web, where there is a browser."""
    require_program("chromium")
    return install_web(tmp_path_factory)


def release(folder: Path, root: Path, model: onnx.ModelProto, **params: Any) -> StageRun:
    params = {"onnxruntime_web": VERSION, **params}
    inputs = {"model": artifact(folder, model)}
    return run_stage("release/web", folder, params, inputs=inputs, root=root, provenance=provenance_file(folder))


@contextmanager
def opened(run: StageRun, folder: Path, headers: Mapping[str, str] | None = None) -> Iterator[Tab]:
    """The page of a release, ready, from a server that sends these headers."""
    with serve_folders({"": run.output}, headers or {}) as address, browser(folder / "chromium") as tab:
        tab.show(f"{address}/")
        tab.evaluate(READY)
        yield tab
        assert tab.complaints == []
        assert [request for request in tab.requests if not request.startswith((address, "blob:"))] == []


def answers(tab: Tab) -> dict[str, Any]:
    """Press the button; the outputs by name."""
    outputs = tab.evaluate(RUN)
    assert outputs is not None, tab.evaluate("document.querySelector('#status').textContent")
    return {name: decode_tensor(tensor) for name, tensor in outputs.items()}


def fill(tab: Tab, name: str, text: str) -> None:
    tab.evaluate(f"document.querySelector('[aria-label={name}]').value = {json.dumps(text)}")


def refusal(tab: Tab, name: str, text: str) -> str:
    """Press the button with this text in a field; the message with which the page refuses it."""
    fill(tab, name, text)
    assert tab.evaluate(RUN) is None
    message: str = tab.evaluate("document.querySelector('#status').textContent")
    return message


@pytest.mark.slow
def test_the_folder_is_a_bundle_with_a_page_of_the_model(tmp_path: Path, root: Path) -> None:
    run = release(tmp_path, root, parse(TEXTS), version="1.2", title="Words & sums")
    assert sorted(digest(run.output)) == [
        "_headers", "index.html", "manifest.json", "measurements.json", "model.onnx",
        "ort/ort-wasm-simd-threaded.wasm", "ort/ort.wasm.bundle.min.mjs",
        "page.css", "page.json", "page.mjs", "provenance.json", "tensors.mjs",
    ]  # fmt: skip
    assert verify_bundle(run.output) == []
    manifest = json.loads((run.output / "manifest.json").read_text())
    assert manifest["version"] == "1.2"
    assert {entry["path"]: entry["sha256"] for entry in manifest["files"]} == {
        path: sha256 for path, sha256 in digest(run.output).items() if path != "manifest.json"
    }
    assert (run.output / "_headers").read_text() == (
        "/*\n  Cross-Origin-Opener-Policy: same-origin\n  Cross-Origin-Embedder-Policy: require-corp\n"
    )
    assert run.value("max_abs_error") == 0
    assert run.value("size") == sum(path.stat().st_size for path in run.output.rglob("*") if path.is_file())
    with opened(run, tmp_path) as tab:
        assert tab.evaluate("document.title") == "Words & sums"
        tab.evaluate("document.querySelector('input[type=number]').value = 3")
        fill(tab, "words", "eins\nzwei\ndrei")
        fill(tab, "ids", "[[1, 2], [3, 4], [5, 4611686018427387904]]")
        result = answers(tab)
        assert list(result["same"]) == ["eins", "zwei", "drei"]
        assert result["sums"].tolist() == [[2, 4], [6, 8], [10, -(2**63)]]
        assert "one thread, because the server sends no headers" in tab.evaluate("about.textContent")
        assert refusal(tab, "ids", "1 2") == "ids takes 6 values for [3, 2], and has 2"
        assert refusal(tab, "ids", "1.5") == "1.5 is not a whole number"
        assert refusal(tab, "ids", f"{2**63}") == "9223372036854775808 does not fit into int64"


@pytest.mark.slow
def test_the_same_bytes_again(tmp_path: Path, root: Path) -> None:
    first, second = (digest(release(tmp_path, root, parse(PICTURE)).output) for _ in range(2))
    assert first == second


@pytest.mark.slow
def test_pictures_are_scaled_as_the_stage_says(tmp_path: Path, root: Path) -> None:
    run = release(tmp_path, root, parse(PICTURE), mean=[0.5, 0.25, 0], std=[0.5, 0.25, 1], shape={"H": 5, "W": 7})
    with opened(run, tmp_path, ISOLATION) as tab:
        assert answers(tab)["pixels"].shape == (1, 3, 5, 7)  # the example
        picture = io.BytesIO()
        Image.new("RGB", (2, 2), (255, 0, 0)).save(picture, "PNG")
        tab.evaluate(CHOOSE % base64.b64encode(picture.getvalue()).decode())
        result = answers(tab)
        assert result["pixels"].shape == (1, 3, 5, 7)
        np.testing.assert_allclose(result["scores"], [[1, -1, 0]], atol=1e-6)
        assert "threads." in tab.evaluate("about.textContent") or "one thread." in tab.evaluate("about.textContent")
        assert tab.evaluate("document.documentElement.scrollWidth") <= 1280


@pytest.mark.slow
def test_half_floats_and_flags_and_external_weights(tmp_path: Path, root: Path) -> None:
    run = release(tmp_path, root, parse(HALF))
    with opened(run, tmp_path) as tab:
        fill(tab, "x", "1.5 -2")
        fill(tab, "b", "true 0")
        result = answers(tab)
        assert result["y"].dtype == np.float16
        assert result["y"].tolist() == [3, -4]
        assert result["c"].tolist() == [False, True]
        assert refusal(tab, "b", "yes 0") == "yes is not true, false, 1 or 0"


def test_a_scale_without_a_picture_is_refused(tmp_path: Path, root: Path) -> None:
    with pytest.raises(StageFailed) as caught:
        release(tmp_path, root, parse(TEXTS), mean=[0.5])
    assert caught.value.problem == (
        "`mean` and `std` scale pictures, and no input of the model takes one with as many channels"
    )
