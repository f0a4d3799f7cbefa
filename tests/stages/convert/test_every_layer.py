"""convert/tensorflow on every layer of Keras: right, or refused. Networks of several layers are quick, beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from orun.errors import OrunError
from tests.stages.conftest import MODULES
from tests.stages.support import run_stage

pytestmark = pytest.mark.slow
LEFT_OUT = {
    "InputSpec", "Layer", "Wrapper",  # what layers are made of
    "FlaxLayer", "JaxLayer", "TFSMLayer", "TorchModuleWrapper",  # models of others
    "MaxNumBoundingBoxes",  # of labels
    "Equalization",  # no model takes it alone; AugMix and RandAugment hold one
}  # fmt: skip
RIGHT = (
    "values", "steps", "lines", "images", "photographs", "rooms", "films", "scans", "moving_rooms", "sounds", "pairs",
    "indices",
)  # fmt: skip
TOLD: Mapping[str, Mapping[str, Any]] = {
    "indices": {"inputs": {"words": {"low": 0, "high": 9}, "kind": {"low": 0, "high": 4}}}
}
NO_OPERATOR = (
    "tf2onnx cannot convert {}\n  ONNX has no operator of that name, and tf2onnx leaves TensorFlow's in its place\n"
)
FAILS, UNOPENED = "tf2onnx cannot convert the model\n", "ONNX Runtime cannot open the converted model\n"
REFUSED: Mapping[str, str] = {
    "area": "the converted model disagrees with the TensorFlow model in output 'output'\n",
    "crossed": NO_OPERATOR.format("SparseCross"),
    "cubic": UNOPENED,  # ONNX Runtime widens cubically where height and width come first
    "half": UNOPENED,
    "hashed": NO_OPERATOR.format("StringToHashBucketFast"),
    "lanczos": NO_OPERATOR.format("ScaleAndTranslate"),
    "looked_up": FAILS,
    "mel": NO_OPERATOR.format("Imag, RFFT, Real"),
    "padded_output": UNOPENED,
    "texts": FAILS,
    "words": FAILS,
}


def test_no_layer_is_forgotten() -> None:
    from keras import layers as kl

    from tests.stages.modules import every_layer

    assert {*RIGHT} == every_layer.RIGHT.keys()
    assert REFUSED.keys() == every_layer.REFUSED.keys()
    layers = {name: layer for name, layer in vars(kl).items() if isinstance(layer, type)}
    models = (*every_layer.RIGHT.values(), *every_layer.REFUSED.values())
    saved = {name for load in models for name in re.findall(r'"class_name": "(\w+)"', load().to_json())}
    used = {layers[name] for name in saved & layers.keys()}
    assert {layer.__name__ for layer in set(layers.values()) - used} == LEFT_OUT


@pytest.mark.parametrize("name", RIGHT)
def test_layers_that_are_right(tmp_path: Path, name: str) -> None:
    params = {"model": f"every_layer.py:{name}", **TOLD.get(name, {})}
    assert run_stage("convert/tensorflow", tmp_path, params, root=MODULES).value("max_abs_error") < 1e-3


@pytest.mark.parametrize("name", REFUSED)
def test_layers_that_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(OrunError) as caught:
        run_stage("convert/tensorflow", tmp_path, {"model": f"every_layer.py:{name}"}, root=MODULES)
    assert str(caught.value).startswith(REFUSED[name])
