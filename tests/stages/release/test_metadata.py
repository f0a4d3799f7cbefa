"""`release/metadata`: what is written is there, and stays through every stage that may come after."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from orun.errors import StageFailed
from orun.stages._graph.io import load_graph, save
from tests.stages.models import WORDY, parse
from tests.stages.support import artifact, digest, run_stage

from .support import provenance_file

PARAMS = {
    "doc_string": "Tells *words* apart.",
    "model_version": 3,
    "domain": "org.example",
    "properties": {"licence": "apache-2.0", "author": "Ö"},
}


def properties(path: Path) -> dict[str, str]:
    return {entry.key: entry.value for entry in load_graph(path).metadata_props}


def test_what_is_written_is_in_the_model(tmp_path: Path) -> None:
    before = parse(WORDY)
    before.metadata_props.add(key="kept", value="as it was")
    run = run_stage(
        "release/metadata",
        tmp_path,
        PARAMS,
        inputs={"model": artifact(tmp_path, before)},
        provenance=provenance_file(tmp_path),
    )
    model = onnx.load(run.model)
    assert (model.doc_string, model.model_version, model.domain) == ("Tells *words* apart.", 3, "org.example")
    written = properties(run.model)
    assert list(written) == ["author", "kept", "licence", "orun.provenance"]
    assert (written["author"], written["kept"]) == ("Ö", "as it was")
    document = json.loads(written["orun.provenance"])
    assert document["pipeline"] == "bert"
    assert document["stages"][0] == {
        "stage": "export",
        "uses": "convert/torch",
        "params": {"opset": 20},
        "tools": {"torch": "2.13.0"},
        "key": "a" * 64,
        "tree": "b" * 64,
    }
    assert model.graph == before.graph


def test_what_is_empty_is_written_and_what_is_left_out_stays(tmp_path: Path) -> None:
    before = parse(WORDY)
    before.doc_string, before.model_version, before.domain = "of old", 7, "org.example"
    params = {"doc_string": "", "model_version": 0, "provenance": False}
    run = run_stage("release/metadata", tmp_path, params, inputs={"model": artifact(tmp_path, before)})
    model = onnx.load(run.model)
    assert (model.doc_string, model.model_version, model.domain) == ("", 0, "org.example")


def test_external_data_is_left_alone(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    model = parse(WORDY)
    model.graph.initializer.append(numpy_helper.from_array(np.ones((32, 32), np.float32), "more"))
    save(model, source / "model.onnx", external=True)
    run = run_stage("release/metadata", tmp_path, {"provenance": False}, inputs={"model": source})
    before, after = digest(source), digest(run.output)
    assert after.pop("model.onnx")
    assert before.pop("model.onnx")
    assert before == after != {}


LATER: Mapping[str, Mapping[str, Any]] = {
    "optimize/simplify": {},
    "optimize/graph": {"level": "extended"},
    "optimize/shapes": {"fix": {"n": 2}},
    "optimize/float16": {},
    "convert/opset": {"version": 21},
    "quantize/dynamic": {},
}


@pytest.mark.parametrize("uses", LATER)
def test_it_survives_later_stages(uses: str, tmp_path: Path) -> None:
    first = run_stage(
        "release/metadata",
        tmp_path,
        PARAMS,
        inputs={"model": artifact(tmp_path, parse(WORDY))},
        provenance=provenance_file(tmp_path),
    )
    second = run_stage(uses, tmp_path, LATER[uses], inputs={"model": first.output})
    assert properties(second.model).items() >= properties(first.model).items()


def test_the_name_of_the_provenance_is_taken(tmp_path: Path) -> None:
    with pytest.raises(StageFailed) as caught:
        run_stage(
            "release/metadata",
            tmp_path,
            {"properties": {"orun.provenance": "mine"}},
            inputs={"model": artifact(tmp_path, parse(WORDY))},
        )
    assert str(caught.value) == "`orun.provenance` is written by orun\n  hint: choose another name for the property"
