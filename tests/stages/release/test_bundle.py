"""`release/bundle` and the check of what it made: whole, damaged in every way, and the same bytes each time."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from blake3 import blake3
from onnx import TensorProto, helper

from orun.core.metrics import Metric
from orun.errors import StageFailed
from orun.stages.release._manifest import verify_bundle, write_manifest
from tests.stages.support import StageRun, artifact, run_stage

from .support import provenance, provenance_file


def model() -> onnx.ModelProto:
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", tensors[:1], tensors[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = artifact(tmp_path, model())
    (folder / "weights").mkdir()
    (folder / "weights" / "model.onnx.data").write_bytes(bytes(range(256)) * 8)
    return folder


def make(folder: Path, source: Path, version: str = "1.10") -> StageRun:
    inputs = {"model": source}
    return run_stage("release/bundle", folder, {"version": version}, inputs=inputs, provenance=provenance_file(folder))


@pytest.fixture
def bundle(tmp_path: Path, source: Path) -> Path:
    return make(tmp_path, source).output


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def test_holds_the_model_and_where_it_comes_from(tmp_path: Path, source: Path) -> None:
    run, stages = make(tmp_path, source), provenance()["stages"]
    assert (run.output / "model.onnx").read_bytes() == (source / "model.onnx").read_bytes()
    assert read(run.output / "provenance.json") == {
        "format": 1,
        "name": "bert",
        "version": "1.10",
        "stages": [
            {name: entry[name] for name in ("stage", "uses", "needs", "params", "tools", "key", "tree")}
            for entry in stages
        ],
    }
    measured = {name: stages[1][name] for name in ("stage", "uses", "tree", "metrics", "verdicts", "host")}
    assert read(run.output / "measurements.json") == {
        "format": 1,
        "name": "bert",
        "version": "1.10",
        "models": {"model.onnx": stages[0]["tree"]},
        "stages": [measured | {"inputs": {"model": stages[0]["tree"]}}],
    }
    files = [path for path in run.output.rglob("*") if path.is_file()]
    assert run.metrics == {"size": Metric(sum(path.stat().st_size for path in files), "B", "lower")}


def test_the_manifest_lists_every_file(bundle: Path) -> None:
    manifest = read(bundle / "manifest.json")
    assert {name: manifest[name] for name in ("format", "name", "version")} == {
        "format": 1,
        "name": "bert",
        "version": "1.10",
    }
    paths = ["measurements.json", "model.onnx", "provenance.json", "weights/model.onnx.data"]
    assert manifest["files"] == [
        {
            "path": path,
            "size": (bundle / path).stat().st_size,
            "blake3": blake3((bundle / path).read_bytes()).hexdigest(),
            "sha256": sha256((bundle / path).read_bytes()).hexdigest(),
        }
        for path in paths
    ]
    assert verify_bundle(bundle) == []


def test_equal_history_makes_equal_bytes(tmp_path: Path, source: Path) -> None:
    first, second = make(tmp_path, source).output, make(tmp_path, source).output
    for path in first.rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (second / path.relative_to(first)).read_bytes(), path


def test_needs_provenance(tmp_path: Path, source: Path) -> None:
    with pytest.raises(StageFailed) as error:
        run_stage("release/bundle", tmp_path, inputs={"model": source})
    assert str(error.value) == "a bundle needs the provenance of its model, and none was given"


def test_external_data_cannot_pose_as_a_part_of_the_bundle(tmp_path: Path, source: Path) -> None:
    (source / "provenance.json").write_bytes(b"weights")
    with pytest.raises(StageFailed) as error:
        make(tmp_path, source)
    assert str(error.value) == ("the input model has a file named provenance.json, a name that the bundle needs itself")


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def digest(path: Path) -> str:
    return blake3(path.read_bytes()).hexdigest()


def sha(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("name", ["model.onnx", "measurements.json", "provenance.json", "weights/model.onnx.data"])
def test_one_bit_is_noticed_in_every_file(bundle: Path, name: str) -> None:
    path = bundle / name
    was = digest(path), sha(path)
    flip(path)
    assert verify_bundle(bundle) == [
        f"{name} was changed: its BLAKE3 is {digest(path)} instead of {was[0]}",
        f"{name} was changed: its SHA-256 is {sha(path)} instead of {was[1]}",
    ]
    flip(path)
    assert verify_bundle(bundle) == []


def truncate(bundle: Path) -> None:
    os.truncate(bundle / "weights" / "model.onnx.data", 1000)


def delete(bundle: Path) -> None:
    (bundle / "provenance.json").unlink()


def add(bundle: Path) -> None:
    (bundle / "notes.txt").write_text("hello", "utf-8")


def rename(bundle: Path) -> None:
    (bundle / "model.onnx").rename(bundle / "model_v2.onnx")


def link(bundle: Path) -> None:
    moved = bundle.parent / "moved.onnx"
    (bundle / "model.onnx").rename(moved)
    (bundle / "model.onnx").symlink_to(moved)


def folder_for_file(bundle: Path) -> None:
    (bundle / "model.onnx").unlink()
    (bundle / "model.onnx").mkdir()


def linked_folder(bundle: Path) -> None:
    (bundle / "more").symlink_to(bundle.parent)


@pytest.mark.parametrize(
    ("damage", "problems"),
    [
        (truncate, ["weights/model.onnx.data has 1000 bytes instead of 2048"]),
        (delete, ["provenance.json is in the manifest, but missing"]),
        (add, ["notes.txt is not in the manifest"]),
        (
            rename,
            ["model.onnx is in the manifest, but missing", "model_v2.onnx is not in the manifest"],
        ),
        (link, ["model.onnx is a link, but a bundle holds only files"]),
        (folder_for_file, ["model.onnx is in the manifest, but missing"]),
        (linked_folder, ["more is not in the manifest"]),
    ],
)
def test_each_difference_is_named(bundle: Path, damage: Callable[[Path], None], problems: list[str]) -> None:
    damage(bundle)
    assert verify_bundle(bundle) == problems


def rewrite(bundle: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the manifest and give it the digest that fits, as a forger would."""
    manifest = read(bundle / "manifest.json")
    change(manifest)
    content = {name: value for name, value in manifest.items() if name != "digest"}
    manifest["digest"] = blake3(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    (bundle / "manifest.json").write_text(json.dumps(manifest), "utf-8")


def test_an_edited_manifest_is_noticed(bundle: Path) -> None:
    text = (bundle / "manifest.json").read_text("utf-8")
    (bundle / "manifest.json").write_text(text.replace('"1.10"', '"1.11"'), "utf-8")
    assert verify_bundle(bundle) == ["manifest.json was changed: its digest does not match its content"]


def test_a_reformatted_manifest_is_the_same_manifest(bundle: Path) -> None:
    (bundle / "manifest.json").write_text(json.dumps(read(bundle / "manifest.json")), "utf-8")
    assert verify_bundle(bundle) == []


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{", "manifest.json is damaged: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        (b"[]", "manifest.json is damaged: it has no format"),
        (b'{"format": "x"}', "manifest.json is damaged: it has no format"),
        (b'{"format": 2}', "manifest.json has format 2, and this orun knows 1"),
        (b'{"format": 1}', "manifest.json was changed: its digest does not match its content"),
    ],
)
def test_a_damaged_manifest(bundle: Path, content: bytes, problem: str) -> None:
    (bundle / "manifest.json").write_bytes(content)
    assert verify_bundle(bundle) == [problem]


def test_a_forged_list_of_files(bundle: Path) -> None:
    for files in (None, [1], [{"path": "model.onnx"}], 2 * read(bundle / "manifest.json")["files"]):
        rewrite(bundle, lambda manifest, files=files: manifest.update(files=files))  # type: ignore[misc]
        assert verify_bundle(bundle) == ["manifest.json is damaged: its list of files is invalid"]


def test_a_path_outside_is_not_followed(bundle: Path) -> None:
    (bundle.parent / "secret").write_bytes(b"x")
    entry = {"path": "../secret", "size": 1, "blake3": digest(bundle.parent / "secret"), "sha256": ""}
    rewrite(bundle, lambda manifest: manifest["files"].append(entry))
    assert verify_bundle(bundle) == ["../secret is in the manifest, but missing"]


def test_parts_that_a_bundle_must_have(tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    write_manifest(tmp_path / "bundle", "bert", "")
    assert verify_bundle(tmp_path / "bundle") == [
        "model.onnx is not in the manifest",
        "provenance.json is not in the manifest",
        "measurements.json is not in the manifest",
    ]


def test_models_that_belong_together(tmp_path: Path, source: Path) -> None:
    """A decoder is released with its encoder, which lies in a folder of its own."""
    encoder = artifact(tmp_path, model())
    ports = {"model": source, "model.encoder": encoder}
    run = run_stage("release/bundle", tmp_path, inputs=ports, provenance=provenance_file(tmp_path))
    assert (run.output / "encoder" / "model.onnx").read_bytes() == (encoder / "model.onnx").read_bytes()
    assert [entry["path"] for entry in read(run.output / "manifest.json")["files"]] == [
        "encoder/model.onnx",
        "measurements.json",
        "model.onnx",
        "provenance.json",
        "weights/model.onnx.data",
    ]
    assert verify_bundle(run.output) == []
    (run.output / "encoder" / "model.onnx").unlink()
    assert verify_bundle(run.output) == ["encoder/model.onnx is in the manifest, but missing"]


def test_a_model_by_the_name_of_anothers_folder(tmp_path: Path, source: Path) -> None:
    """External data of the first model lies in `weights/`."""
    other = artifact(tmp_path, model())
    (other / "model.onnx.data").write_bytes(b"other")
    ports = {"model": source, "model.weights": other}
    with pytest.raises(StageFailed) as caught:
        run_stage("release/bundle", tmp_path, inputs=ports, provenance=provenance_file(tmp_path))
    assert str(caught.value) == (
        "the input model.weights has a file named model.onnx.data, a name that the bundle needs itself"
    )


def with_data(folder: Path, source: Path, examples: int) -> StageRun:
    np.savez(folder / "examples.npz", x=np.random.default_rng(0).normal(size=(examples, 3)).astype(np.float32))
    inputs, params = {"model": source}, {"data": "examples.npz"}
    return run_stage("release/bundle", folder, params, inputs=inputs, provenance=provenance_file(folder))


def test_the_statistics_of_examples_are_released(tmp_path: Path, source: Path) -> None:
    bundle = with_data(tmp_path, source, 20).output
    assert verify_bundle(bundle) == []
    reference = read(bundle / "reference.json")
    assert (reference["format"], reference["model"], reference["rows"]) == (1, "model.onnx", 3)
    (inputs, outputs) = (reference[group][name] for group, name in (("inputs", "x"), ("outputs", "y")))
    assert (inputs["type"], len(inputs["statistics"]["mean"])) == ("float32", 20)
    assert outputs["statistics"]["max"] == [-value for value in inputs["statistics"]["min"]]
    assert "seconds" not in reference
    assert "reference.json" in [file["path"] for file in read(bundle / "manifest.json")["files"]]
    again = with_data(tmp_path, source, 20).output
    assert (again / "manifest.json").read_bytes() == (bundle / "manifest.json").read_bytes()


def test_too_few_examples_for_a_reference(tmp_path: Path, source: Path) -> None:
    with pytest.raises(StageFailed) as caught:
        with_data(tmp_path, source, 19)
    assert str(caught.value) == (
        "examples.npz has 19 examples, and a reference for `orun watch` needs 20\n"
        "  hint: leave out `data`, or name more examples"
    )
