"""Declaration of a dataset in files for a model: which columns are its inputs."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from orun.errors import UsageError
from orun.measure.dataset import LABEL_COLUMNS
from orun.measure.dataset_origin import TOKENS
from orun.scaffold.data_text import MATRIX, Declaration, name_columns
from orun.scaffold.image_declaration import WRITE_FUNCTION, declare_images
from orun.scaffold.model_facts import InputFact, ModelFacts
from orun.scaffold.model_files import CONFIGURATION, read_class_names
from orun.scaffold.paths import make_relative
from orun.scaffold.text_declaration import TEXT, declare_texts
from orun.stages._data.columns import REST, cast_values
from orun.stages._data.files import list_columns, list_dates, list_empty, read, read_columns
from orun.stages._data.source import Source
from orun.stages._data.tables import DELIMITERS, SUFFIXES
from orun.stages._sklearn.plain import find_column
from orun.stages.params import build
from orun.text.counts import count

SEQUENCE = 3  # axes of an input of sequences: batch, time, features


def declare(data: str, folder: Path, facts: ModelFacts) -> Declaration:
    """Return the declaration of a dataset: its path alone where its arrays or columns are the model's inputs.

    Raises:
        UsageError: when the dataset cannot be read, does not suit the model, or does not say which column it takes.
    """
    model = Path(os.path.normpath(folder / facts.source))
    model_folder = model if model.is_dir() else model.parent
    is_folder = Path(data).is_dir()
    declared = (
        declare_images(data, list_inputs(facts), facts, model_folder)
        if is_folder
        else _declare_columns(data, facts, folder, model_folder)
    )
    path = make_relative(folder, data)
    return {"path": path, **declared} if declared else path


def require_readable(declaration: Declaration, folder: Path, facts: ModelFacts) -> None:
    """Read the arrays, columns or images of a declared dataset, so that no stage of the model meets a broken one.

    Texts are left to the stages, which tokenize them. Before the conversion of a model that does not say what it takes,
    nothing is read: the dataset is declared again after it.

    Raises:
        UsageError: when the dataset cannot be read.
    """
    declared = {"path": declaration} if isinstance(declaration, str) else declaration
    names = [item.name for item in list_inputs(facts)]
    if names and folder.is_dir() and TEXT not in declared:
        read(folder, build(Source, declared), names)


def _declare_columns(data: str, facts: ModelFacts, folder: Path, model_folder: Path) -> dict[str, Any]:
    """Return which columns of a file are inputs, labels or texts."""
    inputs = list_inputs(facts)
    columns = list_columns(Path(data), data)
    names = {item.name for item in inputs}
    label = next((name for name in LABEL_COLUMNS if name in columns and name not in names), "")
    dates = [name for name in list_dates(Path(data), data) if name not in names]
    features = {name: holds_text for name, holds_text in columns.items() if name not in (label, *dates)}
    declared: dict[str, Any] = {}
    missing = [item.name for item in inputs if item.name not in columns]
    if facts.columns:  # of an estimator
        missing = [name for name in missing if find_column(name, columns) is None]
    if TOKENS in missing:
        declared = declare_texts(data, features, inputs, facts, folder, model_folder)
    elif missing and len(inputs) == 1:
        declared = _declare_single(inputs[0], features, takes_rest=not dates)
    elif not missing and _is_unnamed(facts) and len(features) > len(inputs):  # the estimator would take them all
        declared = {"inputs": {item.name: item.name for item in inputs}}
    if missing and not declared:
        is_named = len(inputs) > 1 and facts.columns and not _is_unnamed(facts)
        reasons = [] if is_named else _explain_misfit(data, inputs, features, label)
        raise UsageError(
            f"{data} has no values for {', '.join(missing)}, which the model takes",
            why="\n".join([f"it has {', '.join(columns)}", *reasons]),
            hint=f"name its columns as the inputs of the model, or {WRITE_FUNCTION}"
            if is_named
            else f"{WRITE_FUNCTION}: --data file.py:function"
            if all(features.values()) and not any(item.dtype == "object" for item in inputs)
            else _suggest_windows(data, inputs, columns)
            or _suggest_label(inputs, features, label)
            + _suggest_selection(make_relative(folder, data), inputs, columns),
        )
    if TEXT not in declared:
        declared |= _declare_missing_values(data, folder, facts, features, declared)
        declared |= _declare_types(data, [item for item in inputs if item.name in columns], columns)
    if label:
        declared["labels"] = label
    configuration = model_folder / CONFIGURATION
    if label and columns[label] and (classes := read_class_names(configuration)):
        _require_classes(data, label, classes, configuration)
        declared["classes"] = classes
    return declared


def _declare_missing_values(
    data: str, folder: Path, facts: ModelFacts, features: Collection[str], declared: Mapping[str, Any]
) -> dict[str, str]:
    """Return that empty cells are missing values, if there are some, and the model takes them where it takes a column.

    Raises:
        UsageError: when it is not known to take them.
    """
    selected = [*declared.get("inputs", {}).values()] or [
        find_column(item.name, features) or item.name for item in list_inputs(facts)
    ]
    titles = [title for item in selected for title in ([item] if isinstance(item, str) else item)]
    columns = [*features] if titles == [REST] else titles
    accepting = {title for title, fact in zip(columns, facts.columns, strict=False) if fact.takes_missing}
    empty = [title for title in list_empty(Path(data), data) if title in features]
    if refused := [title for title in empty if title in columns and title not in accepting]:
        raise UsageError(
            f"{data} has empty cells in {', '.join(refused)}",
            why="the model is not known to take missing values there",
            hint="fill them in, or leave these rows out; if the model takes NaN there, leave --data out, "
            "and name the data in the file that orun init writes: "
            f"`data: {{path: {make_relative(folder, data)}, missing: nan, ...}}`",
        )
    return {"missing": "nan"} if empty else {}


def _declare_types(data: str, inputs: Sequence[InputFact], columns: Mapping[str, bool]) -> dict[str, Any]:
    """Return the types of inputs whose columns would be read in another type.

    Raises:
        UsageError: when a column of texts is an input of numbers.
    """
    numbers = [item for item in inputs if item.dtype not in ("", "object")]
    if not numbers:
        return {}
    cells = read_columns(Path(data), data)
    if texts := [item for item in numbers if columns[item.name]]:
        titles = ", ".join(item.name for item in texts)
        listed = ", ".join(item.name + _find_first_text(cells[item.name]) for item in texts)
        raise UsageError(
            f"{data} has texts in {titles}, and the model takes numbers there",
            why=f"it takes {'; '.join(map(str, texts))}\nnot numbers: {listed}",
            hint=f"write numbers there, or {WRITE_FUNCTION}: --data file.py:function",
        )
    types = {item.name: item.dtype for item in numbers}
    read = {title: cast_values(data, title, cells[title], None)[0].dtype.name for title in types}
    declared = {title: dtype for title, dtype in types.items() if dtype != read[title]}
    return {"types": declared} if declared else {}


def _is_unnamed(facts: ModelFacts) -> bool:
    """Return whether an estimator was fitted on an array or on texts, so that orun has named its columns."""
    names = [column.name for column in facts.columns]
    return bool(names) and names in ([MATRIX], name_columns(len(names)))


def _explain_misfit(data: str, inputs: Sequence[InputFact], features: Mapping[str, bool], label: str) -> list[str]:
    """Return how many columns of numbers a table has and a model takes, and texts that make them too few."""
    widths = [_count_numbers(item) for item in inputs if item.dtype != "object"]
    present, wanted = [*features.values()].count(False), sum(widths)
    if Path(data).suffix.lower() not in SUFFIXES or not widths or 0 in widths or present == wanted:
        return []
    besides = f" besides {label}" if label else ""
    lines = [f"it has {count(present, 'column')} of numbers{besides}, and the model takes {wanted}"]
    texts = [title for title, holds_text in features.items() if holds_text]
    if present < wanted and texts:
        cells = read_columns(Path(data), data, nan=True)
        lines.append(f"not numbers: {', '.join(title + _find_first_text(cells[title]) for title in texts)}")
    return lines


def _count_numbers(item: InputFact) -> int:
    """Return how many numbers of an example are an input; 0 if that is not known."""
    sizes = [size for size in item.shape[1:] if isinstance(size, int)]
    return math.prod(sizes) if len(sizes) == len(item.shape[1:]) else 0


def _find_first_text(cells: Iterable[Any]) -> str:
    """Return the first cell that is neither empty nor a number, with its row; empty if there is none."""
    for row, cell in enumerate(cells, 1):
        try:
            float(cell or 0)
        except ValueError:
            return f" ({cell!r} in row {row})"
    return ""


def _suggest_windows(data: str, inputs: Sequence[InputFact], columns: Collection[str]) -> str:
    """Say how to make windows of a table whose rows are steps in time; empty if no such input lacks its column."""
    missing = [item for item in inputs if item.name not in columns]
    if Path(data).suffix.lower() not in DELIMITERS or all(len(item.shape) != SEQUENCE for item in missing):
        return ""
    return (
        f"a row of a table is one example, and the model takes {'; '.join(map(str, missing))}: make windows in a "
        "function, --data file.py:function, or store them in a .npz"
    )


def _suggest_label(inputs: Sequence[InputFact], features: Mapping[str, bool], label: str) -> str:
    """Say how to name the labels if one column of numbers is left over; else empty."""
    wanted = sum(_count_numbers(item) for item in inputs if item.dtype != "object")
    is_left_over = not label and wanted and [*features.values()].count(False) == wanted + 1
    return "if one of these holds the labels, name it labels in the file; else " if is_left_over else ""


def _suggest_selection(path: str, inputs: Sequence[InputFact], columns: Collection[str]) -> str:
    """Say how to select the columns of the inputs of a model, and their types other than those of a table."""
    selected = ", ".join(f"{item.name}: {_suggest_columns(item, columns)}" for item in inputs)
    typed = ", ".join(f"{item.name}: {item.dtype}" for item in inputs if item.dtype not in ("float32", "object", ""))
    types = f", types: {{{typed}}}" if typed else ""
    form = f"data: {{path: {path}, inputs: {{{selected}}}{types}, labels: NAME}}"
    return f"leave --data out, and name the columns in the file that orun init writes: `{form}`"


def _suggest_columns(item: InputFact, columns: Collection[str]) -> str:
    """Return the columns of an input in a hint: the column of its name if there is one; a list for a vector."""
    if len(item.shape) == 1:
        return item.name if item.name in columns else "NAME"
    return f"[{item.name}]" if item.name in columns else "[NAME, ...]"


def list_inputs(facts: ModelFacts) -> Sequence[InputFact]:
    """Return the inputs of the model, or of the estimator, as its examples have them."""
    if facts.is_matrix:
        dtype = "object" if facts.columns[0].holds_text else "float32"
        return [InputFact(MATRIX, dtype, ("n", len(facts.columns)))]
    if facts.columns:
        return [InputFact(column.name, "object" if column.holds_text else "", ("n",)) for column in facts.columns]
    return facts.inputs or (facts.graph.inputs if facts.graph else ())


def _declare_single(item: InputFact, features: Mapping[str, bool], *, takes_rest: bool) -> dict[str, Any]:
    """Return the columns that are the only input of a model: one, or as many numbers as it takes.

    With `takes_rest`, all columns but the labels may be declared as `"*"`.
    """
    suitable = [name for name, holds_text in features.items() if holds_text == (item.dtype == "object")]
    if len(suitable) == 1:
        columns: str | list[str] = suitable[0]
    elif len(item.shape) == 2 and item.shape[1] == len(suitable):  # noqa: PLR2004 - rows and columns
        columns = REST if takes_rest and suitable == [*features] else suitable
    else:
        return {}
    types = {} if item.dtype == "object" else {"types": {item.name: item.dtype}}
    return {"inputs": {item.name: columns}, **types}


def _require_classes(data: str, label: str, classes: Sequence[str], configuration: Path) -> None:
    """Refuse labels that are not names of the model's classes."""
    for row, value in enumerate(read_columns(Path(data), data)[label], 1):
        if value not in classes:
            raise UsageError(
                f"{data}: the label {value!r} in row {row} is no class of the model",
                why=f"the classes that {configuration} names are {', '.join(classes)}",
                hint=f"name them so in the column {label}; or rename that column, so that it does not count as labels",
            )
