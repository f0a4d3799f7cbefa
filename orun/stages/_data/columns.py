"""Conversion of named columns to the inputs, labels and candidates of a dataset."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TypeAlias

import numpy as np

from orun.errors import UnknownName, UsageError
from orun.measure.dataset import Array, Dataset, Values
from orun.stages._data.source import LABELS, Source, number_classes

Columns: TypeAlias = Mapping[str, Values]
"""Values by column, one for each example."""

CANDIDATES = "candidates."  # prefix of an input's values for the candidates of a retrieval task
REST = "*"
FILE = re.compile(r".+\.[a-z][a-z0-9]{1,4}", re.IGNORECASE)  # name of a file, such as a sound
FILES = "read files, such as sounds, in `file.py:function` that returns an orun.Dataset; images are in a folder"


def assemble(name: str, columns: Columns, source: Source, model_inputs: Collection[str] = ()) -> Dataset:
    """Return the dataset of these columns: inputs as declared, or each column without another use as an input.

    Args:
        name: name of the file, for messages.
        columns: content of the file.
        source: declaration of the dataset.
        model_inputs: inputs of the model, as far as they are known: a field of such a name is an input, too, and other
            columns may hold what no model accepts.

    Raises:
        UsageError: when a column is missing or holds unsuitable values.
    """
    label = find_label_column(name, columns, source)
    features = [column for column in columns if column != label and not column.startswith(CANDIDATES)]
    declared = {title: [REST] if titles == REST else titles for title, titles in source.inputs.items()}
    named = {column for titles in declared.values() for column in ([titles] if isinstance(titles, str) else titles)}
    rest = [column for column in features if column not in {*named, *source.fields}]
    inputs = {
        title: _build_input(name, columns, titles, rest, source.types.get(title)) for title, titles in declared.items()
    } or {
        column: cast_values(name, column, columns[column], source.types.get(column))
        for column in features
        if column in model_inputs
        or not (column in source.fields or (model_inputs and _list_unsuitable(columns[column])))
    }
    candidates = {
        title: cast_values(name, column, columns[column], source.types.get(title))
        for column in columns
        for title in [column.removeprefix(CANDIDATES)]
        if column != title
    }
    return Dataset(inputs, read_labels(name, columns, source), candidates or None, read_fields(name, columns, source))


def read_labels(name: str, columns: Columns, source: Source) -> Array | None:
    """Return the labels, as numbers of classes if the source names classes; raise UsageError for an unknown class."""
    title = find_label_column(name, columns, source)
    values = None if title is None else _require_one_shape(name, title, columns[title])
    if values is not None and values.dtype.kind == "f" and np.isnan(values).any():
        row = int(np.argwhere(np.isnan(values))[0][0]) + 1
        raise UsageError(f"{name}: the label in row {row} is NaN", hint="leave examples without a label out")
    if not source.classes:
        return values
    if values is None:
        raise UsageError(f"{name} has no labels that `classes` could name", why=f"it has {', '.join(columns)}")
    numbers = number_classes(source.classes)
    for row, value in enumerate(values, 1):
        if str(value) not in numbers:
            message = f"{name}: the label {str(value)!r} in row {row} is none of `classes`"
            raise UsageError(message, why=f"they are {', '.join(source.classes)}")
    return np.array([numbers[str(value)] for value in values], np.int64)


def read_fields(name: str, columns: Columns, source: Source) -> dict[str, Array]:
    """Return the further fields of the examples; raise UsageError when a column is missing."""
    return {title: _require_one_shape(name, title, get_column(name, columns, title)) for title in source.fields}


def find_label_column(name: str, columns: Columns, source: Source) -> str | None:
    """Return the column of the labels; None when the source names none and the default column is missing."""
    if source.labels == LABELS and LABELS not in columns:
        return None
    get_column(name, columns, source.labels)
    return source.labels


def get_column(name: str, columns: Columns, title: str) -> Values:
    """Return a column; raise UnknownName when it is missing."""
    if title not in columns:
        raise UnknownName(f"{name} has no {title!r}", title, columns, why=f"it has {', '.join(columns)}")
    return columns[title]


def _require_one_shape(name: str, title: str, values: Values) -> Array:
    """Return the labels or another field of the examples as an array; raise UsageError for lists of several lengths."""
    shapes = [np.shape(value) for value in values] if not isinstance(values, np.ndarray) else []
    row = next((row for row, shape in enumerate(shapes) if shape != shapes[0]), None)
    if row is None:
        return np.asarray(values)
    raise UsageError(
        f"{name}: {title!r} holds lists of several lengths, and examples have labels and fields of one",
        why=f"it is {np.asarray(values[0]).tolist()} in row 1, {np.asarray(values[row]).tolist()} in row {row + 1}",
        hint="of several classes an example, write 0 or 1 for each class: [0, 1, 1]; metrics that take such labels: "
        "`auc`, `average_precision`, functions of your own",
    )


def _build_input(name: str, columns: Columns, declared: str | list[str], rest: list[str], dtype: str | None) -> Values:
    if isinstance(declared, str):
        return cast_values(name, declared, get_column(name, columns, declared), dtype)
    titles = [title for item in declared for title in (rest if item == REST else [item])]
    parts = []
    for title in titles:
        values = cast_values(name, title, _require_numbers(name, title, get_column(name, columns, title), dtype), dtype)
        if not isinstance(values, np.ndarray):
            raise UsageError(f"{name}: {title!r} has values of several lengths and cannot be joined with others")
        parts.append(values.reshape(len(values), -1))
    return cast_values(name, "", np.concatenate(parts, axis=1), dtype)


def cast_values(name: str, title: str, values: Values, dtype: str | None) -> Values:
    """Return the values in a type; without one, in their own type, but `float32` for `float64`."""
    if not isinstance(values, np.ndarray):
        return [np.asarray(cast_values(name, title, value, dtype)) for value in values]
    if dtype == "text":
        return values.astype(str).astype(object)
    if dtype is None:
        _require_plain(name, title, values)
        native = values.astype(values.dtype.newbyteorder("="), copy=False)
        return native.astype(np.float32) if native.dtype == np.float64 else native
    return _cast_exactly(name, title, _require_numbers(name, title, values, dtype), dtype)


def _require_plain(name: str, title: str, values: Array) -> None:
    """Refuse values that are neither numbers nor texts."""
    if kinds := _list_unsuitable(values):
        raise UsageError(
            f"{name}: {title!r} holds {' and '.join(kinds)}, which models do not accept",
            hint=f"say what it is, `types: {{{title}: ...}}`, or which columns are inputs: `inputs`",
        )


def _list_unsuitable(values: Values) -> list[str]:
    """Return the types of values that are neither numbers nor texts, such as dates, structures and missing values."""
    if not isinstance(values, np.ndarray) or values.dtype.kind in "fiubUS":
        return []
    if values.dtype.kind != "O":
        return [str(values.dtype)]
    return sorted({"nothing" if value is None else type(value).__name__ for value in values.ravel()} - {"str"})


def _cast_exactly(name: str, title: str, values: Array, dtype: str) -> Array:
    """Return the values in a type; refuse values that the type cannot hold."""
    with np.errstate(invalid="ignore", over="ignore"):
        result: Array = values.astype(dtype)
        kept = np.isfinite(result) | ~np.isfinite(values) if result.dtype.kind == "f" else result == values
    if not kept.all():
        place = np.argwhere(~kept)[0]
        row = f" in row {place[0] + 1}" if place.size else ""
        raise UsageError(f"{name}: {title!r} does not fit into {dtype}{row}", why=f"it is {values[tuple(place)]}")
    return result


def _require_numbers(name: str, title: str, values: Values, dtype: str | None) -> Array:
    """Return values as numbers; raise UsageError for the first that is not a number."""
    array = np.asarray(values)
    if dtype == "text" or array.dtype.kind not in "OUS":
        return array
    numbers = np.empty(array.shape, np.float64)
    for place, value in np.ndenumerate(array):
        try:
            numbers[place] = float(value)
        except (ValueError, TypeError) as error:
            row = place[0] + 1
            raise UsageError(
                f"{name}: {title!r} is not a number in row {row}",
                why=f"it is {value!r}",
                hint=FILES if FILE.fullmatch(str(value)) else "",
            ) from error
    return numbers
