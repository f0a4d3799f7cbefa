"""Named columns to the inputs, labels and candidates of a dataset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from orun.errors import UnknownName, UsageError
from orun.measure.dataset import Array, Dataset, Values
from orun.stages._data.source import LABELS, Source

Columns: TypeAlias = Mapping[str, Values]
"""By name: one value for each example."""

CANDIDATES = "candidates."  # before the name of an input: its values for the candidates of a retrieval task
REST = "*"


def assemble(name: str, columns: Columns, source: Source) -> Dataset:
    """The dataset of these columns: inputs as the source says, or each other column under its own name.

    Args:
        name: of the file, for messages.
        columns: what the file holds.
        source: what is to be made of it.

    Raises:
        UsageError: when a column is missing or holds what it cannot.
    """
    spoken_for = {label_column(name, columns, source), *source.fields}
    free = [column for column in columns if column not in spoken_for and not column.startswith(CANDIDATES)]
    asked = {title: [one] if isinstance(one, str) and one == REST else one for title, one in source.inputs.items()}
    named = {column for one in asked.values() for column in ([one] if isinstance(one, str) else one)}
    rest = [column for column in free if column not in named]
    inputs = {title: _input(name, columns, one, rest, source.types.get(title)) for title, one in asked.items()} or {
        column: typed(name, column, columns[column], source.types.get(column)) for column in free
    }
    candidates = {
        title: typed(name, column, columns[column], source.types.get(title))
        for column in columns
        for title in [column.removeprefix(CANDIDATES)]
        if column != title
    }
    return Dataset(inputs, labels_of(name, columns, source), candidates or None, fields_of(name, columns, source))


def labels_of(name: str, columns: Columns, source: Source) -> Array | None:
    """The labels, as numbers of classes where the source names these; raises UsageError for one that it does not."""
    title = label_column(name, columns, source)
    values = None if title is None else np.asarray(columns[title])
    if values is not None and values.dtype.kind == "f" and np.isnan(values).any():
        row = int(np.argwhere(np.isnan(values))[0][0]) + 1
        raise UsageError(f"{name}: the label in row {row} is NaN", hint="leave examples without a label out")
    if not source.classes:
        return values
    if values is None:
        raise UsageError(f"{name} has no labels that `classes` could name", why=f"it has {', '.join(columns)}")
    places = {one: place for place, one in enumerate(source.classes)}
    if twice := [one for one in places if source.classes.count(one) > 1]:
        raise UsageError(f"`classes` names {', '.join(twice)} twice", why="the place of a name is that of its score")
    for row, value in enumerate(values, 1):
        if str(value) not in places:
            what = f"{name}: the label {str(value)!r} in row {row} is none of `classes`"
            raise UnknownName(what, str(value), source.classes, why=f"they are {', '.join(source.classes)}")
    return np.array([places[str(value)] for value in values], np.int64)


def fields_of(name: str, columns: Columns, source: Source) -> dict[str, Array]:
    """What else is known of each example; raises UsageError when a column is missing."""
    return {title: np.asarray(column(name, columns, title)) for title in source.fields}


def label_column(name: str, columns: Columns, source: Source) -> str | None:
    """The column of the labels; None when the source names none and there is none of the usual name."""
    if source.labels == LABELS and LABELS not in columns:
        return None
    column(name, columns, source.labels)
    return source.labels


def column(name: str, columns: Columns, title: str) -> Values:
    """A column; raises UsageError when there is none of that name."""
    if title not in columns:
        raise UnknownName(f"{name} has no {title!r}", title, columns, why=f"it has {', '.join(columns)}")
    return columns[title]


def _input(name: str, columns: Columns, asked: str | list[str], rest: list[str], dtype: str | None) -> Values:
    if isinstance(asked, str):
        return typed(name, asked, column(name, columns, asked), dtype)
    titles = [title for one in asked for title in (rest if one == REST else [one])]
    parts = []
    for title in titles:
        values = typed(name, title, _numbers(name, title, column(name, columns, title), dtype), dtype)
        if not isinstance(values, np.ndarray):
            raise UsageError(f"{name}: {title!r} has values of several lengths and cannot be joined with others")
        parts.append(values.reshape(len(values), -1))
    return typed(name, "", np.concatenate(parts, axis=1), dtype)


def typed(name: str, title: str, values: Values, dtype: str | None) -> Values:
    """The values in a type: the one asked for, or their own, but `float32` for `float64`."""
    if not isinstance(values, np.ndarray):
        return [np.asarray(typed(name, title, value, dtype)) for value in values]
    if dtype == "text":
        return values.astype(str).astype(object)
    if dtype is None:
        _require_plain(name, title, values)
        native = values.astype(values.dtype.newbyteorder("="), copy=False)
        return native.astype(np.float32) if native.dtype == np.float64 else native
    return _exact(name, title, _numbers(name, title, values, dtype), dtype)


def _require_plain(name: str, title: str, values: Array) -> None:
    """Refuse what is neither numbers nor texts: no model takes dates, structures, or values that are missing."""
    if values.dtype.kind in "fiubUS":
        return
    kinds = {str(values.dtype)}
    if values.dtype.kind == "O":
        kinds = {"nothing" if value is None else type(value).__name__ for value in values.ravel()} - {"str"}
    if kinds:
        raise UsageError(
            f"{name}: {title!r} holds {' and '.join(sorted(kinds))}, which no model takes",
            hint=f"say what it is, `types: {{{title}: ...}}`, or which columns are inputs: `inputs`",
        )


def _exact(name: str, title: str, values: Array, dtype: str) -> Array:
    """The values in a type that can hold them: what would be cut off or wrap around is refused."""
    with np.errstate(invalid="ignore", over="ignore"):
        found: Array = values.astype(dtype)
        kept = np.isfinite(found) | ~np.isfinite(values) if found.dtype.kind == "f" else found == values
    if not kept.all():
        place = np.argwhere(~kept)[0]
        row = f" in row {place[0] + 1}" if place.size else ""
        raise UsageError(f"{name}: {title!r} does not fit into {dtype}{row}", why=f"it is {values[tuple(place)]}")
    return found


def _numbers(name: str, title: str, values: Values, dtype: str | None) -> Array:
    """Values that are to be numbers; the first that is none is named with its row."""
    array = np.asarray(values)
    if dtype == "text" or array.dtype.kind not in "OUS":
        return array
    found = np.empty(array.shape, np.float64)
    for place, value in np.ndenumerate(array):
        try:
            found[place] = float(value)
        except (ValueError, TypeError) as error:
            row = place[0] + 1
            raise UsageError(f"{name}: {title!r} is no number in row {row}", why=f"it is {value!r}") from error
    return found
