from __future__ import annotations

import hashlib
from pathlib import Path

import onnx
import pytest

from orun.errors import OrunError
from orun.metrics import Metric
from orun.stages.onnx import io as onnx_io
from tests.stages.models import ADD, WORDY, parse
from tests.stages.support import run_stage


def test_the_same_model_whatever_lies_beside_it(tmp_path: Path) -> None:
    onnx.save(parse(ADD), tmp_path / "add.onnx")
    (tmp_path / "README").write_text("not part of the model")
    made = run_stage("convert/onnx", tmp_path, {"path": "add.onnx"})
    assert [file.name for file in made.output.iterdir()] == ["model.onnx"]
    assert onnx.load(made.model) == parse(ADD)
    size = made.model.stat().st_size
    assert made.metrics == {"size": Metric(size, "B", "lower"), "nodes": Metric(1, better="lower")}


def test_external_data_is_gathered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_io, "EXTERNAL_FROM", 10)
    onnx.save(parse(WORDY), tmp_path / "wordy.onnx", save_as_external_data=True, location="weights", size_threshold=10)
    made = run_stage("convert/onnx", tmp_path, {"path": "wordy.onnx"})
    assert sorted(file.name for file in made.output.iterdir()) == ["model.onnx", "model.onnx.data"]
    assert onnx.load(made.model).graph.initializer[0].raw_data == parse(WORDY).graph.initializer[0].raw_data
    assert made.value("size") == made.model.stat().st_size + 64


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
        ("weigths", "data: the model has no 'weigths'\n  did you mean 'weights'?"),
    ):
        with pytest.raises(OrunError) as caught:
            run_stage("convert/onnx", tmp_path, {"path": "wordy.onnx", "data": {name: "0" * 64}})
        assert str(caught.value).startswith(message)


def test_what_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "cat.onnx").write_bytes(b"meow")
    with pytest.raises(OrunError, match=r"^cat.onnx is not an ONNX model"):
        run_stage("convert/onnx", tmp_path, {"path": "cat.onnx"})
