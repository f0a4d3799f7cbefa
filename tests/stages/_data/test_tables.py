"""Tables in files: columns become inputs and labels, and errors name column and row."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orun.errors import UsageError
from orun.stages._data import tables
from orun.stages._data.files import read
from orun.stages._data.source import Source
from orun.stages.params import FilePath
from tests.stages._data.support import array, labels, load, refusal

CSV = "age,income,town,bought\n31,2.5,Ulm,yes\n64,1,Bonn,no\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "people.csv").write_text(CSV)
    columns = {"age": [31, 64], "income": [2.5, 1.0], "town": ["Ulm", "Bonn"], "bought": ["yes", "no"]}
    pq.write_table(pa.table(columns), tmp_path / "people.parquet")
    (tmp_path / "people.tsv").write_text(CSV.replace(",", "\t"))
    rows = pa.table(columns).to_pylist()
    for name in ("people.jsonl", "people.ndjson"):
        (tmp_path / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return tmp_path


@pytest.mark.parametrize("name", ["people.csv", "people.tsv", "people.jsonl", "people.ndjson", "people.parquet"])
def test_columns_become_inputs_and_labels(folder: Path, name: str) -> None:
    dataset = load(folder, name, inputs={"X": ["age", "income"], "town": "town"}, labels="bought")
    assert array(dataset, "X").tolist() == [[31.0, 2.5], [64.0, 1.0]]
    assert array(dataset, "X").dtype == np.float32
    assert array(dataset, "town").tolist() == ["Ulm", "Bonn"]
    assert labels(dataset) == ["yes", "no"]


@pytest.mark.parametrize("name", ["people.csv", "people.parquet"])
def test_labels_that_are_names_and_columns_to_slice_by(folder: Path, name: str) -> None:
    """Classes in the order of the model's scores, which is not that of the alphabet."""
    dataset = load(folder, name, labels="bought", classes=["yes", "maybe", "no"], fields=["town"])
    assert (labels(dataset), str(dataset.labels.dtype if dataset.labels is not None else "")) == ([0, 2], "int64")
    assert list(dataset.inputs) == ["age", "income"]
    assert {title: values.tolist() for title, values in dataset.fields.items()} == {"town": ["Ulm", "Bonn"]}
    assert labels(load(folder, name, labels="age", classes=["64", "31"])) == [1, 0]


@pytest.mark.parametrize("cells", [["true", "false"], ["002", "010"], ["2024-01-05", "1e3"], ["1.50", ""]])
def test_cells_of_declared_texts_stay_as_they_are_written(tmp_path: Path, cells: list[str]) -> None:
    (tmp_path / "t.csv").write_text("code,n\n" + "".join(f"{cell},1\n" for cell in cells))
    assert labels(load(tmp_path, "t.csv", labels="code", classes=cells)) == [0, 1]
    assert array(load(tmp_path, "t.csv", types={"code": "text"}), "code").tolist() == cells
    joined = load(tmp_path, "t.csv", inputs={"X": ["code"], "n": "n"}, types={"X": "text"})
    assert array(joined, "X").tolist() == [[cell] for cell in cells]
    assert array(load(tmp_path, "t.csv", inputs={"X": "code"}, types={"X": "text"}), "X").tolist() == cells


def test_dates_in_json_stay_texts(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"n": 1, "day": "2024-01-05"}\n{"n": 2, "day": "2024-01-06"}\n')
    dataset = load(tmp_path, "t.jsonl")
    assert list(dataset.inputs) == ["n", "day"]
    assert array(dataset, "day").tolist() == ["2024-01-05", "2024-01-06"]


def test_a_table_in_another_encoding_is_refused_where_it_is_used(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("text,n\ncafé,1\n", "latin-1")
    why = "{}: 'utf-8' codec can't decode byte 0xe9 in position {}"
    message = f"t.csv is not text in UTF-8\n  {why}\n  hint: save it as UTF-8"
    assert refusal(tmp_path, "t.csv") == message.format("column 'text'", "3: unexpected end of data")
    assert array(load(tmp_path, "t.csv", inputs={"n": "n"}), "n").tolist() == [1]
    (tmp_path / "t.csv").write_text("téxt,n\ncafe,1\n", "latin-1")
    assert refusal(tmp_path, "t.csv", inputs={"n": "n"}) == message.format(
        "the names of its columns", "1: invalid continuation byte"
    )
    (tmp_path / "t.txt").write_text("café\n", "latin-1")
    assert refusal(tmp_path, "t.txt", types={"text": "text"}) == (
        "t.txt is not text in UTF-8\n  'utf-8' codec can't decode byte 0xe9 in position 3: invalid continuation byte\n"
        "  hint: save it as UTF-8"
    )


@pytest.mark.parametrize("name", ["people.csv", "people.parquet"])
def test_columns_to_slice_by_that_the_model_takes_too(folder: Path, name: str) -> None:
    source = Source(FilePath(name), labels="bought", fields=["town", "income"])
    assert list(read(folder, source).inputs) == ["age"]
    dataset = read(folder, source, {"income", "age", "bought"})
    assert list(dataset.inputs) == ["age", "income"]
    assert (str(array(dataset, "income").dtype), list(dataset.fields)) == ("float32", ["town", "income"])
    declared = replace(source, inputs={"X": ["income"], "rest": "*"})
    assert array(read(folder, declared, {"X", "rest", "income"}), "rest").tolist() == [[31], [64]]


def test_a_label_that_is_not_listed_gets_the_list_and_no_suggestion(folder: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read(folder, Source(FilePath("people.csv"), labels="bought", classes=["yess", "no"]))
    assert type(caught.value) is UsageError
    assert caught.value.why == "they are yess, no"


def test_classes_and_fields_that_do_not_fit(folder: Path) -> None:
    assert refusal(folder, "people.csv", labels="bought", classes=["Yes", "no"]) == (
        "people.csv: the label 'yes' in row 1 is none of `classes`\n  they are Yes, no"
    )
    assert refusal(folder, "people.csv", labels="bought", classes=["yes", "yes"]) == (
        "`classes` names yes twice\n  the position of a name is the position of its score"
    )
    assert refusal(folder, "people.csv", classes=["yes", "no"]) == (
        "people.csv has no labels that `classes` could name\n  it has age, income, town, bought"
    )
    assert refusal(folder, "people.csv", fields=["twon"]) == (
        "people.csv has no 'twon'\n  it has age, income, town, bought"
    )


def test_the_rest_of_the_columns(folder: Path) -> None:
    dataset = load(folder, "people.csv", inputs={"town": "town", "X": "*"}, labels="bought")
    assert array(dataset, "X").shape == (2, 2)
    everything = load(folder, "people.csv")
    assert list(everything.inputs) == ["age", "income", "town", "bought"]
    assert array(everything, "age").dtype == np.int64
    assert everything.labels is None


def test_lists_of_several_lengths(tmp_path: Path) -> None:
    pq.write_table(pa.table({"ids": [[1, 2, 3], [4]], "vector": [[1.0, 2.0], [3.0, 4.0]]}), tmp_path / "t.parquet")
    dataset = load(tmp_path, "t.parquet")
    assert [row.tolist() for row in dataset.inputs["ids"]] == [[1, 2, 3], [4]]
    assert array(dataset, "vector").shape == (2, 2)


@pytest.mark.parametrize("fields", [{}, {"classes": ["a", "b", "c"]}, {"labels": "x", "fields": ["labels"]}])
def test_lists_of_several_lengths_are_no_labels(tmp_path: Path, fields: dict[str, Any]) -> None:
    """The error was NumPy's, of an inhomogeneous shape."""
    rows = [{"x": 1, "labels": ["c"]}, {"x": 2, "labels": ["b"]}, {"x": 3, "labels": ["a", "b"]}]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert refusal(tmp_path, "t.jsonl", **fields) == (
        "t.jsonl: 'labels' holds lists of several lengths, and examples have labels and fields of one\n"
        "  it is ['c'] in row 1, ['a', 'b'] in row 3\n"
        "  hint: of several classes an example, write 0 or 1 for each class: [0, 1, 1]; metrics that take such labels: "
        "`auc`, `average_precision`, functions of your own"
    )


def test_paths_of_sounds_are_no_numbers(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("audio\nclips/1.wav\nclips/2.WAV\n")
    assert refusal(tmp_path, "t.csv", types={"audio": "float32"}) == (
        "t.csv: 'audio' is not a number in row 1\n"
        "  it is 'clips/1.wav'\n"
        "  hint: read files, such as sounds, in `file.py:function` that returns an orun.Dataset; images are in a folder"
    )


def test_mistakes_are_named_by_column_and_row(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,\n")
    assert refusal(tmp_path, "t.csv") == (
        "t.csv: column 'b' is empty in row 2\n  1 of 2 rows have no value\n"
        "  hint: fill it in, or leave the row out; if the model accepts NaN for missing values: "
        "`{path: t.csv, missing: nan}`"
    )
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,four\n")
    assert refusal(tmp_path, "t.csv", inputs={"X": ["a", "b"]}) == "t.csv: 'b' is not a number in row 2\n  it is 'four'"
    (tmp_path / "t.csv").write_text("a,b\n1\n")
    assert refusal(tmp_path, "t.csv") == (
        "t.csv is not a table\n  CSV parse error: Row #2: Expected 2 columns, got 1: 1"
    )
    (tmp_path / "t.csv").write_text("a,b\n")
    assert refusal(tmp_path, "t.csv") == "t.csv has no rows"
    (tmp_path / "t.jsonl").write_text('{"a": 1}\n["a"]\n')
    assert refusal(tmp_path, "t.jsonl") == (
        "t.jsonl is not a table\n  JSON parse error: Column() changed from object to array in row 2"
    )
    (tmp_path / "t.parquet").write_bytes(b"PAR0")
    assert refusal(tmp_path, "t.parquet").startswith("t.parquet is not a table\n  ")


def test_rows_of_json_are_counted_from_1_where_their_number_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "".join(f'{{"a": {number}}}\n' for number in range(10))
    (tmp_path / "t.jsonl").write_text(f'{rows}{{"a": "cut')
    why = "t.jsonl is not a table\n  JSON parse error: Missing a closing quotation mark in string."
    assert refusal(tmp_path, "t.jsonl") == f"{why} in row 11"
    monkeypatch.setattr(tables, "BLOCK", 64)  # bytes: rows are counted anew in each block
    assert refusal(tmp_path, "t.jsonl") == why


@pytest.mark.parametrize(
    ("encoding", "why"),
    [
        ("utf-16", "it begins with the mark of UTF-16"),
        ("utf-16-be", "byte 0 is 0, as in UTF-16"),
        ("utf-16-le", "byte 1 is 0, as in UTF-16"),
    ],
)
@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.txt"])
def test_a_file_in_utf_16(tmp_path: Path, name: str, encoding: str, why: str) -> None:
    (tmp_path / name).write_text("text,n\ncafé,1\n", encoding)
    assert refusal(tmp_path, name) == f"{name} is not text in UTF-8\n  {why}\n  hint: save it as UTF-8"


def test_what_is_missing_is_nan_where_that_is_said(tmp_path: Path) -> None:
    """Empty cells as NaN, as in pandas, for converted imputers and boosted trees."""
    (tmp_path / "t.csv").write_text("a,b,town,none\n1,2,Ulm,\n3,,Bonn,\n")
    dataset = load(tmp_path, "t.csv", inputs={"X": ["a", "b"], "town": "town"}, missing="nan")
    np.testing.assert_array_equal(array(dataset, "X"), np.array([[1, 2], [3, np.nan]], np.float32))
    assert array(load(tmp_path, "t.csv", inputs={"X": "none"}, missing="nan"), "X").tolist() == pytest.approx(
        [np.nan, np.nan], nan_ok=True
    )
    pq.write_table(pa.table({"town": ["Ulm", None], "day": [date(2026, 1, 2), None]}), tmp_path / "t.parquet")
    assert array(load(tmp_path, "t.parquet", inputs={"X": "town"}, missing="nan"), "X").tolist() == ["Ulm", ""]
    assert refusal(tmp_path, "t.parquet") == (
        "t.parquet: column 'town' is empty in row 2\n  1 of 2 rows have no value\n"
        "  hint: fill it in, or leave the row out; if it may count as the empty text: "
        "`{path: t.parquet, missing: nan}`"
    )
    assert refusal(tmp_path, "t.parquet", inputs={"X": "day"}, missing="nan") == (
        "t.parquet: column 'day' is empty in row 2\n  1 of 2 rows have no value\n"
        "  hint: fill it in, or leave the row out"
    )
    assert refusal(tmp_path, "t.csv", inputs={"X": "a"}, labels="b", missing="nan") == (
        "t.csv: the label in row 2 is NaN\n  hint: leave examples without a label out"
    )


def test_a_long_text_in_a_line_of_json(tmp_path: Path) -> None:
    text = "x" * 3_000_000
    (tmp_path / "t.jsonl").write_text(f'{{"text": "{text}"}}\n')
    assert list(array(load(tmp_path, "t.jsonl"), "text")) == [text]


def test_a_column_that_nobody_uses_may_lack_values(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,\n")
    assert array(load(tmp_path, "t.csv", inputs={"X": "a"}), "X").tolist() == [1, 3]


def test_columns_that_go_by_one_name(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b,a\n1,2,3\n")
    assert refusal(tmp_path, "t.csv") == "t.csv has several columns of the same name\n  a"


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([date(2026, 1, 2)], "datetime64[D]"),
        ([{"x": 1}], "dict"),
        ([[1, None], [2, 3]], "int and nothing"),
        ([Decimal("1.5")], "Decimal"),
    ],
)
def test_what_no_model_takes(tmp_path: Path, values: list[object], kind: str) -> None:
    pq.write_table(pa.table({"a": values, "b": list(range(len(values)))}), tmp_path / "t.parquet")
    assert refusal(tmp_path, "t.parquet") == (
        f"t.parquet: 'a' holds {kind}, which models do not accept\n"
        "  hint: say what it is, `types: {a: ...}`, or which columns are inputs: `inputs`"
    )
    assert list(load(tmp_path, "t.parquet", inputs={"b": "b"}).inputs) == ["b"]
    assert list(read(tmp_path, Source(FilePath("t.parquet")), ["b"]).inputs) == ["b"]  # the model's only input
    with pytest.raises(UsageError) as caught:
        read(tmp_path, Source(FilePath("t.parquet")), ["a", "b"])
    assert caught.value.problem == f"t.parquet: 'a' holds {kind}, which models do not accept"


def test_decimals_are_numbers_where_that_is_said(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [Decimal("1.5"), Decimal("2.5")]}), tmp_path / "t.parquet")
    assert array(load(tmp_path, "t.parquet", types={"a": "float32"}), "a").tolist() == [1.5, 2.5]
    pq.write_table(pa.table({"a": [[1, None], [2, 3]]}), tmp_path / "t.parquet")
    assert refusal(tmp_path, "t.parquet", types={"a": "float32"}) == (
        "t.parquet: 'a' is not a number in row 1\n  it is None"
    )


def test_lists_that_are_no_arrays(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [[[1], [2, 3]]]}), tmp_path / "t.parquet")
    assert refusal(tmp_path, "t.parquet").startswith(
        "t.parquet: column 'a' is not an array in every row\n  setting an array"
    )


@pytest.mark.parametrize(("dtype", "value"), [("int8", "300"), ("int64", "1.5"), ("float16", "1000000"), ("bool", "2")])
def test_values_that_a_type_cannot_hold(tmp_path: Path, dtype: str, value: str) -> None:
    (tmp_path / "t.csv").write_text(f"a,b\n1,2\n{value},3\n")
    assert refusal(tmp_path, "t.csv", types={"a": dtype}) == (
        f"t.csv: 'a' does not fit into {dtype} in row 2\n  it is {value}"
    )
