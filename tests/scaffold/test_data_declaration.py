"""Declarations of `orun init` for a dataset in files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from PIL import Image

import orun
from orun.core.serialization import replace
from orun.errors import UsageError
from orun.scaffold.data_declaration import declare
from orun.scaffold.data_text import Declaration
from orun.scaffold.inspection_process import declare_data
from orun.scaffold.model_facts import ColumnFact, GraphFacts, InputFact, ModelFacts
from orun.scaffold.request import Request
from orun.scaffold.targets import find_target
from orun.stages._data.images import require_images
from tests.scaffold.support import save_tokenizer

TOKENS = tuple(InputFact(name, "int64", ("batch", "sequence")) for name in ("input_ids", "attention_mask"))
TOKENIZED = ModelFacts("torch", "bert", TOKENS, longest=510)
MATRIX = ModelFacts("onnx", "m.onnx", (InputFact("X", "float32", ("n", 2)),))
TEXT = ModelFacts("sklearn", "t.joblib", columns=(ColumnFact("X", "text"),))
IMAGES = ModelFacts("torch", "vit", (InputFact("pixel_values", "float32", ("n", 3, "height", "width")),))
IMPUTED = ModelFacts("sklearn", "f.joblib", columns=(ColumnFact("a"), ColumnFact("b", takes_missing=True)))
UNNAMED = ModelFacts("sklearn", "f.joblib", columns=(ColumnFact("x0"), ColumnFact("x1", "text")))
TWO = ModelFacts(
    "tensorflow",
    "two.keras",
    (
        InputFact("num", "float32", ("batch", 2)),
        InputFact("b", "int64", ("batch",)),
        InputFact("c", "int32", ("batch", 1)),
    ),
)
INTEGERS = "types: {b: int64, c: int32}, labels: NAME"
CLICKS = ModelFacts(
    "torch",
    "net.py:load",
    tuple(
        InputFact(name, dtype, ("batch",))
        for name, dtype in {"user": "int64", "country": "int32", "age": "float32", "price": "float32"}.items()
    ),
)
GREY = ModelFacts("onnx", "m.onnx", (InputFact("x", "float32", ("n", 28, 28, 1)),))
GREY_IMAGES = {
    "input": "x", "size": [28, 28], "resize": None, "channels": "grey", "scale": 1 / 255, "mean": [0.0], "std": [1.0],
    "layout": "nhwc",
}  # fmt: skip
PIXELS = {"size": [32, 32], "resize": None, "scale": 1.0, "mean": [0.0] * 3, "std": [1.0] * 3, "layout": "nhwc"}
STATED = {"image_mean": [0.5] * 3, "image_std": [0.25] * 3, "resample": 3, "size": {"shortest_edge": 288}}
NAME_COLUMN = "hint: leave --data out, and name the column, and `pair` for a second, in the file that orun init writes:"
NAME_COLUMNS = "hint: leave --data out, and name the columns in the file that orun init writes:"
FILES = {
    "clicks.csv": "user,country,age,price,y\n7,1,30,1.5,0\n8,2,40,2.5,1\n",
    "named_clicks.csv": "user,country,age,price,y\n7,1,30,1.5,0\n8,de,40,2.5,1\n",
    "columns.csv": "X,target\n1,0\n2,1\n",
    "numbers.csv": "a,b,label\n1,2.5,0\n3,4.5,1\n",
    "mixed.csv": "a,name,b\n1,one,2\n3,two,4\n",
    "reviews.csv": "id,review,label\n1,good,1\n2,bad,0\n",
    "named.csv": "review,label\ngood,pos\nbad,neg\n",
    "titled.csv": "title,text\none,good\ntwo,bad\n",
    "many.csv": "title,body\none,good\ntwo,bad\n",
    "pairs.csv": "sentence2,sentence1,label\none,good,0\ntwo,bad,1\n",
    "extended.csv": "text,text_pair\none,good\ntwo,bad\n",
    "other.csv": "text,label\ngood,neg\nbad,bad\n",
    "lines.txt": "good\nbad\n",
    "wide.csv": "a,b,c\n1,2,3\n",
    "typo.csv": "a,b,c,label\n1,2,3,0\n4,,6,1\n7,abc,9,1\n",
    "unnamed.csv": "x0,x1,id,label\n1,Bonn,7,0\n2,Oslo,8,1\n",
    "sales.csv": "day,lag_1,lag_7,y\n2026-01-01,2.5,3,1\n2026-01-02,4.5,6,2\n",
    "hours.csv": "time,load,heat\n2026-01-01T00:00:00,1,2\n2026-01-01T01:00:00,3,4\n",
    "gaps.csv": "a,b,name,target\n1,,x,0\n2,4,,1\n",
    "gaps.jsonl": '{"X": "good"}\n{"X": null}\n',
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Datasets, and the folders of two models; the working folder."""
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    clicks = {"user": "int32", "country": "int32", "age": "float32", "price": "float64"}
    columns: dict[str, Any] = {name: np.ones(3, dtype) for name, dtype in clicks.items()}
    np.savez(tmp_path / "clicks.npz", **columns)
    np.save(tmp_path / "rows.npy", np.zeros((3, 2), np.float32))
    for name in ("bert", "vit", "photos"):
        (tmp_path / name).mkdir()
    for name, limit in {"bert": None, "models/short": 32}.items():
        save_tokenizer(tmp_path / name, ("input_ids", "attention_mask"), limit)
    (tmp_path / "unnamed").mkdir()
    (tmp_path / "unnamed/config.json").write_text('{"id2label": {"0": "LABEL_0", "1": "LABEL_1"}}')
    save_tokenizer(tmp_path / "unnamed/tokenizer", ("input_ids", "attention_mask"))
    (tmp_path / "bert/config.json").write_text('{"id2label": {"1": "pos", "0": "neg"}}')
    (tmp_path / "vit/preprocessor_config.json").write_text(json.dumps(STATED | {"do_center_crop": True}))
    return tmp_path


@pytest.mark.parametrize(
    ("data", "facts", "declared"),
    [
        ("columns.csv", MATRIX, {"types": {"X": "float32"}, "labels": "target"}),
        ("clicks.csv", CLICKS, {"types": {"country": "int32", "age": "float32"}, "labels": "y"}),
        ("clicks.npz", CLICKS, {"types": {"user": "int64"}}),
        ("sales.csv", MATRIX, {"inputs": {"X": ["lag_1", "lag_7"]}, "types": {"X": "float32"}, "labels": "y"}),
        ("hours.csv", MATRIX, {"inputs": {"X": ["load", "heat"]}, "types": {"X": "float32"}}),
        ("numbers.csv", MATRIX, {"inputs": {"X": "*"}, "types": {"X": "float32"}, "labels": "label"}),
        ("mixed.csv", MATRIX, {"inputs": {"X": ["a", "b"]}, "types": {"X": "float32"}}),
        ("rows.npy", MATRIX, {"inputs": {"X": "rows"}, "types": {"X": "float32"}}),
        (
            "reviews.csv",
            TOKENIZED,
            {"text": {"tokenizer": "bert", "column": "review", "length": 510}, "labels": "label"},
        ),
        (
            "named.csv",
            TOKENIZED,
            {
                "text": {"tokenizer": "bert", "column": "review", "length": 510},
                "labels": "label",
                "classes": ["neg", "pos"],
            },
        ),
        (
            "named.csv",
            ModelFacts("torch", "unnamed", TOKENS),
            {"text": {"tokenizer": "unnamed/tokenizer", "column": "review"}, "labels": "label"},
        ),
        ("lines.txt", ModelFacts("torch", "models/short", TOKENS, longest=64), {"text": {"tokenizer": "models/short"}}),
        (
            "lines.txt",
            ModelFacts("torch", "models/short", TOKENS, longest=24),
            {"text": {"tokenizer": "models/short", "length": 24}},
        ),
        (
            "pairs.csv",
            TOKENIZED,
            {
                "text": {"tokenizer": "bert", "column": "sentence1", "pair": "sentence2", "length": 510},
                "labels": "label",
            },
        ),
        (
            "extended.csv",
            TOKENIZED,
            {"text": {"tokenizer": "bert", "column": "text", "pair": "text_pair", "length": 510}},
        ),
        ("titled.csv", TOKENIZED, {"text": {"tokenizer": "bert", "length": 510}}),
        ("lines.txt", TOKENIZED, {"text": {"tokenizer": "bert", "length": 510}}),
        ("lines.txt", ModelFacts("torch", "net.py:load", TOKENS), {"text": {"tokenizer": "bert"}}),
        ("reviews.csv", TEXT, {"inputs": {"X": "review"}, "labels": "label"}),
        ("unnamed.csv", UNNAMED, {"inputs": {"x0": "x0", "x1": "x1"}, "labels": "label"}),
        ("gaps.csv", IMPUTED, {"missing": "nan", "labels": "target"}),
        (
            "gaps.csv",
            replace(IMPUTED, columns=IMPUTED.columns[1:]),
            {"missing": "nan", "labels": "target"},
        ),
        (
            "gaps.csv",
            replace(IMPUTED, columns=(ColumnFact("x0"), IMPUTED.columns[1]), is_matrix=True),
            {"inputs": {"X": ["a", "b"]}, "types": {"X": "float32"}, "missing": "nan", "labels": "target"},
        ),
        ("gaps.csv", replace(IMPUTED, columns=IMPUTED.columns[:1]), {"missing": "nan", "labels": "target"}),
        ("gaps.jsonl", replace(TEXT, columns=(ColumnFact("X", "text", takes_missing=True),)), {"missing": "nan"}),
        (
            "photos",
            IMAGES,
            {
                "images": {
                    "input": "pixel_values",
                    "size": [224, 224],
                    "resize": 288,
                    "resample": "bicubic",
                    "scale": 1 / 255,
                    "mean": [0.5, 0.5, 0.5],
                    "std": [0.25, 0.25, 0.25],
                }
            },
        ),
        ("photos", GREY, {"images": GREY_IMAGES}),
        ("photos", replace(GREY, form="tensorflow"), {"images": {**GREY_IMAGES, "scale": 1.0}}),
        (
            "photos",
            ModelFacts("onnx", "m.onnx", (InputFact("x", "float32", ("n", 3, 224, 224)),)),
            {
                "images": {
                    "input": "x",
                    "size": [224, 224],
                    "scale": 1 / 255,
                    "mean": [0.485, 0.456, 0.406],
                    "std": [0.229, 0.224, 0.225],
                }
            },
        ),
        (
            "photos",
            ModelFacts("tensorflow", "m.keras", (InputFact("image", "float32", ("n", 32, 32, 3)),)),
            {"images": {"input": "image", **PIXELS}},
        ),
        (
            "photos",
            ModelFacts("onnx", "m.onnx", (InputFact("image", "uint8", ("n", 32, 32, 3)),)),
            {"images": {"input": "image", **PIXELS}, "types": {"image": "uint8"}},
        ),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_a_model_needs_of_a_dataset(data: str, facts: ModelFacts, declared: dict[str, Declaration]) -> None:
    assert declare(data, Path(), facts) == {"path": data, **declared}


def test_images_that_transformers_scales_otherwise(folder: Path) -> None:
    stated = {"do_rescale": False, "do_normalize": False, "image_mean": [0.5] * 3}
    (folder / "vit/preprocessor_config.json").write_text(json.dumps(stated))
    declared = {
        "input": "pixel_values",
        "size": [224, 224],
        "resize": None,
        "resample": "bilinear",
        "scale": 1.0,
        "mean": [0.0] * 3,
        "std": [1.0] * 3,
    }
    assert declare("photos", Path(), IMAGES) == {"path": "photos", "images": declared}


@pytest.mark.parametrize(
    ("splits", "named"),
    [(["train", "validation", "test"], "test"), (["train", "validation"], "validation"), (["train"], "train")],
)
def test_of_a_folder_of_splits_one_is_named(tmp_path: Path, splits: list[str], named: str) -> None:
    (tmp_path / "dataset_dict.json").write_text(json.dumps({"splits": splits}))
    for split in splits:
        (tmp_path / split).mkdir()
        (tmp_path / split / "state.json").write_text("{}")
    with pytest.raises(UsageError) as caught:
        require_images(tmp_path, "saved")
    assert str(caught.value).splitlines() == [
        "saved is a folder of the library datasets, not of images",
        f"  hint: datasets.load_from_disk('saved')['{named}'].to_parquet('data.parquet')",
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            "saved",
            [
                "saved is a folder of the library datasets, not of images",
                "hint: datasets.load_from_disk('saved').to_parquet('data.parquet')",
            ],
        ),
        (
            "manifest.csv",
            [
                "manifest.csv has no values for input_values, which the model takes",
                "it has path, text",
                "hint: write file.py:function that returns an orun.Dataset: --data file.py:function",
            ],
        ),
    ],
)
def test_files_that_are_neither_columns_of_inputs_nor_images(folder: Path, data: str, message: list[str]) -> None:
    (folder / "saved").mkdir()
    for name in ("dataset_info.json", "state.json", "data-00000-of-00001.arrow"):
        (folder / "saved" / name).write_text("{}")
    (folder / "manifest.csv").write_text("path,text\none.wav,good\n")
    sound = ModelFacts("torch", "w2v", (InputFact("input_values", "float32", ("batch", "samples")),))
    with pytest.raises(UsageError) as caught:
        declare(data, Path(), IMAGES if data == "saved" else sound)
    assert str(caught.value).splitlines() == [message[0], *(f"  {line}" for line in message[1:])]


@pytest.mark.parametrize(
    ("folders", "declared"),
    [
        (("blue", "red"), {"classes": ["red", "green", "blue"]}),
        (("blue", "n01440764"), {}),  # not the names of the model
        ((), {}),
    ],
)
def test_class_folders_are_numbered_as_the_scores_of_the_model(
    folder: Path, folders: tuple[str, ...], declared: dict[str, list[str]]
) -> None:
    (folder / "vit/config.json").write_text('{"id2label": {"0": "red", "1": "green", "2": "blue"}}')
    for name in folders:
        (folder / "photos" / name).mkdir()
        Image.new("RGB", (1, 1)).save(folder / "photos" / name / "one.png")
    declaration = declare("photos", Path(), IMAGES)
    assert isinstance(declaration, dict)
    assert {key: declaration[key] for key in ("classes", "labels") if key in declaration} == declared
    request = Request(replace(IMAGES, graph=GraphFacts(outputs=("logits",))), find_target("cpu"), declaration)
    assert request.label_metric == ("accuracy" if declared else "")


@pytest.mark.usefixtures("folder")
def test_columns_with_the_names_of_the_inputs_need_no_declaration() -> None:
    named = ModelFacts("sklearn", "f.joblib", columns=(ColumnFact("a"), ColumnFact("b"), ColumnFact("c")))
    assert declare("wide.csv", Path(), named) == "wide.csv"


@pytest.mark.usefixtures("folder")
def test_labels_of_the_usual_name_are_declared_for_the_gates() -> None:
    Path("labelled.csv").write_text("a,labels\n1,0\n")
    named = ModelFacts("sklearn", "f.joblib", columns=(ColumnFact("a"),))
    assert declare("labelled.csv", Path(), named) == {"path": "labelled.csv", "labels": "labels"}


@pytest.mark.usefixtures("folder")
def test_columns_with_spaces_where_lightgbm_has_underscores() -> None:
    Path("spaced.csv").write_text("petal width,target\n1,0\n")
    named = ModelFacts("sklearn", "f.joblib", columns=(ColumnFact("petal_width"),))
    assert declare("spaced.csv", Path(), named) == {"path": "spaced.csv", "labels": "target"}


@pytest.mark.usefixtures("folder")
def test_paths_are_relative_to_a_folder_that_is_not_there_yet() -> None:
    facts = ModelFacts("torch", "../bert", TOKENS)
    assert declare("lines.txt", Path("new"), facts) == {"path": "../lines.txt", "text": {"tokenizer": "../bert"}}


@pytest.mark.parametrize(
    ("data", "facts", "message"),
    [
        (
            "many.csv",
            TOKENIZED,
            [
                "many.csv has several columns of texts: title, body",
                "the model takes one text, or a pair of texts",
                f"{NAME_COLUMN} `data: {{path: many.csv, text: {{tokenizer: bert, column: title}}}}`",
            ],
        ),
        (
            "lines.txt",
            ModelFacts("torch", "bert", (*TOKENS, InputFact("decoder_input_ids", "int64", ("batch", "target")))),
            [
                "lines.txt has no values for decoder_input_ids, which a tokenizer does not make",
                "the model takes input_ids, attention_mask, decoder_input_ids",
                "hint: write a function that returns an orun.Dataset with values for all of them: --data file.py:function",  # noqa: E501
            ],
        ),
        (
            "other.csv",
            TOKENIZED,
            [
                "other.csv: the label 'bad' in row 2 is no class of the model",
                "the classes that bert/config.json names are neg, pos",
                "hint: name them so in the column label; or rename that column, so that it does not count as labels",
            ],
        ),
        (
            "lines.txt",
            ModelFacts("torch", "vit", TOKENS),
            [
                "lines.txt holds texts, and the model takes tokens",
                "there is no tokenizer with the model, or there are several",
                "hint: save it in a folder there: tokenizer.save_pretrained('vit/tokenizer')",
            ],
        ),
        (
            "photos",
            MATRIX,
            [
                "photos is a folder, of which orun reads images, and the model does not take one as float32 or uint8",
                "it takes X float32[n, 2]",
                "hint: write file.py:function that returns an orun.Dataset",
            ],
        ),
        (
            "wide.csv",
            MATRIX,
            [
                "wide.csv has no values for X, which the model takes",
                "it has a, b, c",
                "it has 3 columns of numbers, and the model takes 2",
                (
                    "hint: if one of these holds the labels, name it labels in the file; else "
                    f"{NAME_COLUMNS.removeprefix('hint: ')} "
                    "`data: {path: wide.csv, inputs: {X: [NAME, ...]}, labels: NAME}`"
                ),
            ],
        ),
        (
            "hours.csv",
            ModelFacts("torch", "net.py:load", (InputFact("x", "float32", ("batch", "time", 2)),)),
            [
                "hours.csv has no values for x, which the model takes",
                "it has time, load, heat",
                (
                    "hint: a row of a table is one example, and the model takes x float32[batch, time, 2]: make "
                    "windows in a function, --data file.py:function, or store them in a .npz"
                ),
            ],
        ),
        (
            "named_clicks.csv",
            CLICKS,
            [
                "named_clicks.csv has texts in country, and the model takes numbers there",
                "it takes country int32[batch]",
                "not numbers: country ('de' in row 2)",
                "hint: write numbers there, or write file.py:function that returns an orun.Dataset: --data file.py:function",  # noqa: E501
            ],
        ),
        (
            "typo.csv",
            ModelFacts("onnx", "m.onnx", (InputFact("X", "float32", ("n", 3)),)),
            [
                "typo.csv has no values for X, which the model takes",
                "it has a, b, c, label",
                "it has 2 columns of numbers besides label, and the model takes 3",
                "not numbers: b ('abc' in row 3)",
                f"{NAME_COLUMNS} `data: {{path: typo.csv, inputs: {{X: [NAME, ...]}}, labels: NAME}}`",
            ],
        ),
        (
            "gaps.csv",
            UNNAMED,
            [
                "gaps.csv has no values for x0, x1, which the model takes",
                "it has a, b, name, target",
                "it has 2 columns of numbers besides target, and the model takes 1",
                f"{NAME_COLUMNS} `data: {{path: gaps.csv, inputs: {{x0: NAME, x1: NAME}}, labels: NAME}}`",
            ],
        ),
        (
            "many.csv",
            TEXT,
            [
                "many.csv has no values for X, which the model takes",
                "it has title, body",
                f"{NAME_COLUMNS} `data: {{path: many.csv, inputs: {{X: NAME}}, labels: NAME}}`",
            ],
        ),
        (
            "wide.csv",
            TWO,
            [
                "wide.csv has no values for num, which the model takes",
                "it has a, b, c",
                "it has 3 columns of numbers, and the model takes 4",
                f"{NAME_COLUMNS} `data: {{path: wide.csv, inputs: {{num: [NAME, ...], b: b, c: [c]}}, {INTEGERS}}}`",
            ],
        ),
        *[
            (
                data,
                facts,
                [
                    f"{data} has empty cells in {column}",
                    "the model is not known to take missing values there",
                    (
                        "hint: fill them in, or leave these rows out; if the model takes NaN there, leave --data out, "
                        "and name the data in the file that orun init writes: "
                        f"`data: {{path: {data}, missing: nan, ...}}`"
                    ),
                ],
            )
            for data, facts, column in [
                ("gaps.csv", replace(IMPUTED, columns=(ColumnFact("a"), ColumnFact("b"))), "b"),
                ("gaps.csv", replace(IMPUTED, columns=(IMPUTED.columns[1], ColumnFact("x1")), is_matrix=True), "b"),
                ("gaps.csv", MATRIX, "b"),
                ("gaps.jsonl", TEXT, "X"),
            ]
        ],
        (
            "wide.csv",
            ModelFacts("sklearn", "f.joblib", columns=(ColumnFact("a"), ColumnFact("d"))),
            [
                "wide.csv has no values for d, which the model takes",
                "it has a, b, c",
                "hint: name its columns as the inputs of the model, or write file.py:function that returns an orun.Dataset",  # noqa: E501
            ],
        ),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_dataset_that_does_not_suit_the_model(data: str, facts: ModelFacts, message: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        declare(data, Path(), facts)
    assert str(caught.value) == "\n  ".join(message)


@pytest.mark.slow
def test_a_dataset_that_is_declared_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[N,2] X) => (float[N,2] y) { y = Relu(X) }'
    onnx.save(onnx.parser.parse_model(text), "relu.onnx")
    Path("numbers.csv").write_text(FILES["numbers.csv"])
    Path("relu.yaml").write_text(orun.init("relu.onnx", data="numbers.csv", goal="size<1MB"))
    declared = '  data: {path: numbers.csv, inputs: {X: "*"}, types: {X: float32}, labels: label}\n'
    assert declared in Path("relu.yaml").read_text()
    assert orun.load("relu.yaml").stage("accuracy").params["dataset"]["labels"] == "label"
    with pytest.raises(UsageError) as caught:
        declare_data("nothing.csv", Path(), MATRIX)
    assert str(caught.value) == "there is no nothing.csv\n  hint: name a file, a folder of images, or file.py:function"
