"""`measure/accuracy` of transcripts: texts, tokens and CTC scores, normalization, slices, and refusals."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from orun.core.metrics import Estimate
from tests.stages.measure.test_accuracy import measure, model, refusal

pytest.importorskip("rapidfuzz")
jiwer = pytest.importorskip("jiwer")

RIGHT = ["HELLO WORLD", "GOOD MORNING, ALL", "NO", "WELL DONE"] * 5
HEARD = ["HELLO WORD", "GOOD MORNING ALL", "", "WELL WELL DONE"] * 5
DATA = """
import numpy as np
import orun
from tests.stages.measure.test_accuracy_texts import HEARD, LETTERS, RIGHT

def texts():
    rooms = ["quiet", "loud"] * 10
    return orun.Dataset({"in_text": np.array(HEARD, dtype=object)}, RIGHT, fields={"room": rooms})

def frames(text):
    # each letter twice, and a blank after it, as a CTC model answers
    ids = [LETTERS["|" if letter == " " else letter] for letter in text]
    return np.array([number for letter in ids for number in (letter, letter, LETTERS["<pad>"])] or [0], np.int64)

def tokens():
    return orun.Dataset({"in_ids": [frames(text) for text in HEARD]}, RIGHT)

def scores():
    tables = [np.eye(len(LETTERS), dtype=np.float32)[frames(text)] for text in HEARD]
    return orun.Dataset({"in_scores": tables}, RIGHT)

def lowercase_labels():
    return orun.Dataset({"in_text": np.array(HEARD, dtype=object)}, [text.lower() for text in RIGHT])

def other_labels():
    return orun.Dataset({"in_text": np.array(HEARD, dtype=object)}, ["quite another text"] * 20)

def numbers():
    return orun.Dataset({"in_text": np.array(HEARD, dtype=object)}, np.arange(20))

def first_word(outputs, dataset):
    return [text.split(" ")[0] for text in outputs["text"]]

def without_comma(text):
    return text.replace(",", "")

def length(text):
    return len(text)
"""
LETTERS = {letter: number for number, letter in enumerate(["<pad>", "<unk>", "|", ",", *"ABCDEFGHIJKLMNOPQRSTUVWXYZ"])}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data.py").write_text(DATA, "utf-8")
    return tmp_path


def copier(name: str, kind: int, *axes: str | int) -> onnx.ModelProto:
    """A model that returns its input `in_NAME` as the output NAME, without a change."""
    ends = [helper.make_tensor_value_info(f"{prefix}{name}", kind, ["n", *axes]) for prefix in ("in_", "")]
    node = helper.make_node("Identity", [f"in_{name}"], [name])
    return model(helper.make_graph([node], "copier", ends[:1], ends[1:]))


TEXT = copier("text", TensorProto.STRING)


def test_texts_of_the_model_compared_with_a_baseline_and_by_field(folder: Path) -> None:
    params = {"dataset": "data.py:texts", "metrics": ["wer", "cer"], "slices": ["room"]}
    run = measure(folder, params, model=TEXT, baseline=TEXT)
    assert run.value("wer") == pytest.approx(jiwer.wer(RIGHT, HEARD))
    assert run.value("cer") == pytest.approx(jiwer.cer(RIGHT, HEARD))
    assert run.value("wer[room=loud]") == pytest.approx(jiwer.wer(RIGHT[1::2], HEARD[1::2]))
    rate = run.metrics["wer"]
    assert (rate.unit, rate.better, rate.noise) == ("ratio", "lower", "sample")
    assert rate.interval is not None
    assert 0 < rate.interval.low < rate.value < rate.interval.high
    assert rate.baseline is not None
    assert rate.baseline.difference.low < 0 < rate.baseline.difference.high  # equal texts prove little


@pytest.mark.parametrize(
    ("normalize", "expected"),
    [
        (["punctuation"], lambda text: text.replace(",", "")),
        (["data.py:without_comma", "lowercase", "unicode"], lambda text: text.replace(",", "").lower()),
    ],
)
def test_normalization_is_as_the_pipeline_says(
    folder: Path, normalize: list[str], expected: Callable[[str], str]
) -> None:
    params = {"dataset": "data.py:texts", "metrics": ["wer"], "text": {"normalize": normalize}}
    right = jiwer.wer([expected(text) for text in RIGHT], [expected(text) for text in HEARD])
    assert right < jiwer.wer(RIGHT, HEARD)
    assert measure(folder, params, model=TEXT).value("wer") == pytest.approx(right)


def test_a_function_makes_texts_of_the_outputs(folder: Path) -> None:
    params = {"dataset": "data.py:texts", "metrics": ["wer"], "postprocess": "data.py:first_word"}
    heard = [text.split(" ")[0] for text in HEARD]
    assert measure(folder, params, model=TEXT).value("wer") == pytest.approx(jiwer.wer(RIGHT, heard))


def test_tokens_and_ctc_scores_are_decoded_by_a_tokenizer(folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    (folder / "vocab.json").write_text(json.dumps(LETTERS), "utf-8")
    tokenizer = transformers.Wav2Vec2CTCTokenizer(str(folder / "vocab.json"), bos_token=None, eos_token=None)
    tokenizer.save_pretrained(folder / "speech")
    text = {"tokenizer": "speech", "normalize": ["punctuation"]}
    ids = copier("ids", TensorProto.INT64, "frames")
    scores = copier("scores", TensorProto.FLOAT, "frames", len(LETTERS))
    plain = [text.replace(",", "") for text in RIGHT]
    for dataset, values in (("tokens", ids), ("scores", scores)):
        params = {"dataset": f"data.py:{dataset}", "metrics": ["wer", "cer"], "text": text}
        run = measure(folder, params, model=values)
        assert run.value("wer") == pytest.approx(jiwer.wer(plain, HEARD))
        assert run.value("cer") == pytest.approx(jiwer.cer(plain, HEARD))
    wrong = {"dataset": "data.py:texts", "metrics": ["wer"], "text": {"tokenizer": "speech"}}
    assert refusal(folder, wrong, model=TEXT) == (
        "the tokenizer needs token ids `[length]` of each example, or scores `[length, tokens]`\n"
        "  the judged output of example 0 is a text\n"
        "  hint: name the output that holds them first: `outputs: [NAME]`"
    )


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"dataset": "data.py:numbers"}, "wer needs one text for each example\n  the label of example 0 is 0"),
        (
            {"text": {"normalize": ["data.py:length"]}},
            "normalize: data.py:length must return a text\n  it returned a int for 'HELLO WORLD'",
        ),
        (
            {"text": {"tokenizer": "data.py"}},
            (
                "data.py is not a tokenizer folder\n"
                "  it holds no tokenizer.json, tokenizer_config.json or vocabulary\n"
                "  hint: tokenizer.save_pretrained(folder)"
            ),
        ),
        (
            {"metrics": ["accuracy"], "text": {"normalize": ["lowercase"]}},
            ("`text` is set, and no metric reads it\n  hint: add one of wer, cer to `metrics`, or leave `text` out"),
        ),
    ],
)
def test_what_cannot_be_judged_is_refused(folder: Path, params: dict[str, object], message: str) -> None:
    assert refusal(folder, {"dataset": "data.py:texts", "metrics": ["wer"], **params}, model=TEXT) == message


def test_scores_without_a_tokenizer_are_refused(folder: Path) -> None:
    scores = copier("scores", TensorProto.FLOAT, "frames", len(LETTERS))
    message = refusal(folder, {"dataset": "data.py:scores", "metrics": ["wer"]}, model=scores)
    assert message == (
        "wer needs one text for each example\n"
        f"  the output scores of example 0 is float32 [30, {len(LETTERS)}]\n"
        "  hint: for a model that returns tokens or their scores: `text: {tokenizer: FOLDER}`, or a function that "
        "returns texts, `postprocess: file.py:function`"
    )


def test_figures_of_probabilities(folder: Path) -> None:
    (folder / "classes.py").write_text(
        "import numpy as np\nimport orun\n\ndef data():\n"
        "    x = np.random.default_rng(0).normal(0, 2, (60, 3)).astype(np.float32)\n"
        "    return orun.Dataset({'in_scores': x}, x.argmax(axis=1) * (np.arange(60) % 4 > 0))\n",
        "utf-8",
    )
    params = {"dataset": "classes.py:data", "metrics": ["brier", "log_loss", "ece"], "slices": ["label"]}
    scores = copier("scores", TensorProto.FLOAT, 3)
    run = measure(folder, params, model=scores, baseline=scores)
    assert {name: run.metrics[name].better for name in params["metrics"]} == dict.fromkeys(params["metrics"], "lower")
    assert (run.metrics["brier"].unit, run.metrics["log_loss"].unit, run.metrics["ece"].unit) == ("", "", "ratio")
    assert run.metrics["brier"].baseline is not None
    assert run.metrics["brier"].baseline.method == "paired bootstrap over 60 examples"
    assert 0 < run.value("ece[label=0]") < 1
    error = run.metrics["ece"]
    assert error.interval == Estimate(error.value, -math.inf, math.inf)
    assert error.baseline is not None
    assert error.baseline.method == "no interval of ece holds; `brier` and `log_loss` have one"
    assert (error.baseline.difference.low, error.baseline.difference.high) == (-math.inf, math.inf)


@pytest.mark.parametrize(
    ("dataset", "normalize", "rest"),
    [
        ("texts", [], ""),
        (
            "lowercase_labels",
            [],
            "112 %, and 50 % if case is ignored: to ignore it, add `lowercase` to `text: {normalize: [...]}`",
        ),
        ("lowercase_labels", ["lowercase"], ""),
        (
            "other_labels",
            ["lowercase"],
            "100 %, so a comparison tells little: do labels and outputs have the same form?",
        ),
    ],
)
def test_error_rates_that_tell_little(folder: Path, dataset: str, normalize: list[str], rest: str) -> None:
    params = {"dataset": f"data.py:{dataset}", "metrics": ["wer"], "text": {"normalize": normalize}}
    alone = measure(folder, params, model=TEXT)
    compared = measure(folder, params, model=TEXT, reference=TEXT)
    for role, run in (("model", alone), ("reference", compared)):
        reasons = (f"the wer of the {role} is {rest}",) if rest else ()
        assert tuple(note for note in run.notes if "wer" in note) == reasons
