"""Labels that `orun init` looks for where the declaration of the data names none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from orun.scaffold.data_declaration import declare
from orun.scaffold.label_facts import LabelFacts
from orun.scaffold.label_search import search_labels
from orun.scaffold.model_facts import ColumnFact, GraphFacts, InputFact, ModelFacts
from tests.scaffold.support import save_tokenizer

TWO = GraphFacts(outputs=("label", "probabilities"), classes=("label",), scores=2)
LOANS = ModelFacts("sklearn", "f.joblib", columns=(ColumnFact("age"), ColumnFact("sum")), graph=TWO)
ASSUMED = "is assumed: the model does not take this column, which has as many values as the model has scores"


def find(data: str, facts: ModelFacts) -> LabelFacts:
    return search_labels(data, Path(), facts, declare(data, Path(), facts))


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("graph", "header", "rows", "label"),
    [
        (TWO, "age,sum,default", ["1,2,0", "3,4,1", "5,6,1"], "default"),
        (TWO, "age,sum,region,default", ["1,2,0,0", "3,4,1,1", "5,6,2,1"], "default"),
        (TWO, "age,sum,grade", ["1,2,4", "3,4,7"], "grade"),  # the classes of an estimator have any numbers
        (GraphFacts(outputs=("y",), scores=3), "age,sum,kind,note", ["1,2,0,a", "3,4,1,b", "5,6,2,c"], "kind"),
        (GraphFacts(texts=("label",), scores=2), "age,sum,state", ["1,2,good", "3,4,bad"], "state"),
    ],
)
def test_the_only_column_of_no_other_use_that_fits_the_scores(
    graph: GraphFacts, header: str, rows: list[str], label: str
) -> None:
    Path("loans.csv").write_text("\n".join([header, *rows]) + "\n")
    facts = ModelFacts("sklearn", "f.joblib", columns=LOANS.columns, graph=graph)
    assert find("loans.csv", facts) == LabelFacts({"labels": label}, f"`labels: {label}` {ASSUMED}")


@pytest.mark.parametrize(
    ("graph", "header", "rows", "shown", "label"),
    [
        (TWO, "age,sum,sex,default", ["1,2,0,0", "3,4,1,1"], "s sex, default", "sex"),  # two fit
        (TWO, "age,sum,price", ["1,2,0.5", "3,4,1.5"], " price", "price"),
        (TWO, "age,sum,grade", ["1,2,0", "3,4,1", "5,6,2"], " grade", "grade"),
        (TWO, "age,sum,grade", ["1,2,0", "3,4,"], " grade", "grade"),
        (GraphFacts(outputs=("y",), scores=2), "age,sum,grade", ["1,2,4", "3,4,7"], " grade", "grade"),
        (GraphFacts(outputs=("y",), scores=2), "age,sum,state", ["1,2,good", "3,4,bad"], " state", "state"),
        (GraphFacts(outputs=("y",)), "age,sum,default", ["1,2,0", "3,4,1"], " default", "default"),
    ],
)  # fmt: skip
def test_columns_that_nothing_takes_are_named(
    graph: GraphFacts, header: str, rows: list[str], shown: str, label: str
) -> None:
    Path("loans.csv").write_text("\n".join([header, *rows]) + "\n")
    facts = ModelFacts("sklearn", "f.joblib", columns=LOANS.columns, graph=graph)
    ask = f"Next: if {'one' if ',' in shown else 'it'} holds the labels, name it in `data`, `labels: {label}`"
    refusal = f"nothing takes the column{shown} of loans.csv. {ask}, and add a metric and a gate"
    assert find("loans.csv", facts) == LabelFacts(refusal=refusal)


def test_columns_that_the_model_takes_are_no_labels() -> None:
    Path("loans.csv").write_text("age,sum\n1,0\n2,1\n")
    assert find("loans.csv", LOANS) == LabelFacts()
    matrix = ModelFacts("onnx", "m.onnx", (InputFact("X", "float32", ("n", 3)),), graph=TWO)
    Path("rows.csv").write_text("a,b,c\n1,2,0\n3,4,1\n")
    assert find("rows.csv", matrix) == LabelFacts()


def test_arrays_that_the_model_does_not_take() -> None:
    arrays: dict[str, Any] = {
        "user": np.arange(6), "kind": np.arange(6) % 3, "score": np.linspace(0, 1, 6), "vector": np.zeros((6, 3), int),
    }  # fmt: skip
    np.savez("eval.npz", **arrays)
    graph = GraphFacts(outputs=("kind", "score"), scores=3)
    facts = ModelFacts("tensorflow", "two.keras", (InputFact("user", "int64", ("n",)),), graph=graph)
    assert find("eval.npz", facts).declared == {"labels": "kind"}


def test_texts_that_the_configuration_names_as_classes() -> None:
    save_tokenizer(Path("bert"), ("input_ids",))
    Path("bert/config.json").write_text('{"id2label": {"1": "pos", "0": "neg"}}')
    Path("reviews.csv").write_text("text,mood,channel\ngood,pos,web\nbad,neg,app\n")
    inputs = (InputFact("input_ids", "int64", ("batch", "sequence")),)
    facts = ModelFacts("torch", "bert", inputs, graph=GraphFacts(outputs=("logits",), scores=2))
    assert find("reviews.csv", facts).declared == {"labels": "mood", "classes": ["neg", "pos"]}


def images(scores: int, folders: tuple[str, ...], names: tuple[str, ...] = ()) -> LabelFacts:
    for name in folders:
        Path("photos", name).mkdir(parents=True)
        Image.new("RGB", (1, 1)).save(f"photos/{name}/one.png")
    if names:
        Path("config.json").write_text(json.dumps({"id2label": dict(enumerate(names))}))
    inputs = (InputFact("x", "float32", ("n", 3, 4, 4)),)
    return find("photos", ModelFacts("onnx", "m.onnx", inputs, graph=GraphFacts(outputs=("y",), scores=scores)))


@pytest.mark.parametrize("folders", [("bolt", "nut", "pin", "washer"), tuple(map(str, range(11)))])
def test_as_many_class_folders_as_scores_are_the_classes_in_order_of_names(folders: tuple[str, ...]) -> None:
    assert images(len(folders), folders) == LabelFacts(
        {"classes": [*folders]},
        "`classes` is assumed: the folders of photos in the order of their names, as there are as many as the model "
        "has scores. Nothing beside the model says what their order is",
    )


@pytest.mark.parametrize(
    ("scores", "names", "why"),
    [
        (4, (), "photos has 2 class folders, and the model 4 scores"),
        (0, (), "photos has class folders, and the model no scores of classes"),
        (2, ("bolt", "screw"), "the class folders of photos are not the classes that config.json names"),
    ],
)
def test_why_class_folders_are_no_classes(scores: int, names: tuple[str, ...], why: str) -> None:
    ask = "Next: name the classes in the order of the scores in `data`, `classes: [...]`, and add `accuracy` and a gate"
    assert images(scores, ("bolt", "nut"), names) == LabelFacts(refusal=f"{why}. {ask}")
