"""Search for the labels of a dataset in files that names none as usual: a column, or the folders of images."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from orun.scaffold.data_declaration import list_inputs
from orun.scaffold.data_text import Declaration
from orun.scaffold.label_facts import LabelFacts
from orun.scaffold.model_facts import ModelFacts
from orun.scaffold.model_files import CONFIGURATION, read_class_names
from orun.scaffold.text_declaration import TEXT
from orun.stages._data.columns import CANDIDATES, REST
from orun.stages._data.files import list_columns, read_columns
from orun.stages._data.images import list_class_folders
from orun.stages._sklearn.plain import find_column
from orun.text.counts import count
from orun.text.lists import join_few

SHOWN = 8  # names in a sentence
KINDS = {"i": "classes", "u": "classes", "b": "classes", "U": "texts", "O": "texts"}
"""Facts about a graph with the outputs that labels of each of NumPy's kinds are compared with."""


def search_labels(data: str, folder: Path, facts: ModelFacts, declaration: Declaration) -> LabelFacts:
    """Return what may be the labels of a dataset whose declaration names none."""
    model = Path(os.path.normpath(folder / facts.source))
    names = read_class_names((model if model.is_dir() else model.parent) / CONFIGURATION)
    declared = {} if isinstance(declaration, str) else declaration
    if Path(data).is_dir():
        return _search_folders(data, facts, names)
    if unused := _list_unused(Path(data), data, facts, declared):
        return _search_columns(data, unused, facts, names)
    return LabelFacts()


def _search_folders(data: str, facts: ModelFacts, names: Sequence[str]) -> LabelFacts:
    """Return the class folders as classes in order of names, if there are as many as the model has scores."""
    folders, _ = list_class_folders(Path(data))
    scores = facts.graph.scores if facts.graph else 0
    if not folders:
        return LabelFacts()
    ask = "Next: name the classes in the order of the scores in `data`, `classes: [...]`, and add `accuracy` and a gate"
    if names:
        return LabelFacts(refusal=f"the class folders of {data} are not the classes that {CONFIGURATION} names. {ask}")
    if len(folders) != scores:
        has = f"has {count(len(folders), 'class folder')}, and the model {count(scores, 'score')}" if scores else ""
        return LabelFacts(refusal=f"{data} {has or 'has class folders, and the model no scores of classes'}. {ask}")
    if {*folders} == {str(number) for number in range(scores)}:
        folders = sorted(folders, key=int)
    assumption = (
        f"`classes` is assumed: the folders of {data} in the order of their names, as there are as many as the model "
        "has scores. Nothing beside the model says what their order is"
    )
    return LabelFacts({"classes": folders}, assumption)


def _search_columns(data: str, unused: Sequence[str], facts: ModelFacts, names: Sequence[str]) -> LabelFacts:
    """Return the only column of no other use that has as many classes as the model has scores."""
    columns = read_columns(Path(data), data, nan=True)
    fitting = [title for title in unused if _is_label(np.asarray(columns[title]), facts, names)]
    if len(fitting) == 1:
        label = fitting[0]
        is_named = np.asarray(columns[label]).dtype.kind in "UO" and bool(names)
        assumption = (
            f"`labels: {label}` is assumed: the model does not take this column, which has as many values as the model "
            "has scores"
        )
        return LabelFacts({"labels": label, **({"classes": [*names]} if is_named else {})}, assumption)
    noun, pronoun = ("columns", "one") if len(unused) > 1 else ("column", "it")
    return LabelFacts(
        refusal=f"nothing takes the {noun} {join_few(unused, SHOWN)} of {data}. Next: if {pronoun} holds the labels, "
        f"name it in `data`, `labels: {(fitting or unused)[0]}`, and add a metric and a gate"
    )


def _list_unused(path: Path, data: str, facts: ModelFacts, declared: Mapping[str, Any]) -> list[str]:
    """Return the columns of a file that no input of the model takes."""
    columns = list_columns(path, data)
    if text := declared.get(TEXT):
        used = {text.get("column", TEXT), text.get("pair")}
    elif inputs := declared.get("inputs"):
        used = {title for item in inputs.values() for title in ([item] if isinstance(item, str) else item)}
    else:
        used = {find_column(item.name, columns) for item in list_inputs(facts)}
    if REST in used:
        return []
    return [title for title in columns if title not in used and not title.startswith(CANDIDATES)]


def _is_label(values: np.ndarray[Any, Any], facts: ModelFacts, names: Sequence[str]) -> bool:
    """Return whether values may be the classes of a model: as many as it has scores, and such as it answers."""
    graph = facts.graph
    if graph is None or not graph.scores or values.ndim != 1 or values.dtype.kind not in KINDS:
        return False
    if values.dtype.kind == "O" and not all(isinstance(value, str) for value in values):
        return False
    classes = {*values.tolist()}
    if values.dtype.kind in "UO" and names:
        return len(classes) > 1 and classes <= {*names}
    is_answered = bool(getattr(graph, KINDS[values.dtype.kind]))
    return len(classes) == graph.scores and (is_answered or classes == {*range(graph.scores)})
