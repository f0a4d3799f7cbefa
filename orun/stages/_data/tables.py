"""Readers of tables: .csv, .tsv, .jsonl and .parquet by pyarrow, and the lines of a .txt file."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from orun.errors import UsageError
from orun.measure.dataset import Values
from orun.stages._data.columns import Columns
from orun.stages._data.packages import need

if TYPE_CHECKING:
    import pyarrow as pa

DELIMITERS = {".csv": ",", ".tsv": "\t"}
JSON = (".jsonl", ".ndjson")  # an object a line
SUFFIXES = (*DELIMITERS, *JSON, ".parquet")
BLOCK = 1 << 26  # bytes of JSON that are read at a time; a row must fit in
ROW = re.compile(r" in row (\d+)$")  # in errors of pyarrow on JSON
START = 4096  # bytes that tell the encoding of a text file
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_table(path: Path, name: str, *, nan: bool = False, texts: Collection[str] = ()) -> Columns:
    """Read the columns of a table; see `_Table`.

    Args:
        path: of the file.
        name: of the file, for messages.
        nan: whether missing values are NaN and the empty text.
        texts: columns of a .csv or .tsv that hold texts, so that cells such as `001` and `true` stay as they are
            written.
    """
    return _Table(_load(path, name, texts), name, nan=nan)


def list_columns(path: Path, name: str) -> dict[str, bool]:
    """Return the columns of a table, and whether each holds texts."""
    return {field.name: _is_text(field.type) for field in _load(path, name).schema}


def list_dates(path: Path, name: str) -> list[str]:
    """Return the columns of a table that hold dates or times."""
    from pyarrow import types

    return [field.name for field in _load(path, name).schema if types.is_temporal(field.type)]


def list_empty(path: Path, name: str) -> list[str]:
    """Return the columns of a table in which rows have no value; an empty text of a .csv or .tsv is one."""
    table = _load(path, name)
    return [title for title in table.column_names if table.column(title).null_count]


def _load(path: Path, name: str, texts: Collection[str] = ()) -> pa.Table:
    need("pyarrow", f"reading {name}")
    from pyarrow import ArrowInvalid, parquet

    suffix = path.suffix.lower()
    if suffix != ".parquet":
        _refuse_utf_16(path, name)
    try:
        if suffix in DELIMITERS:
            table = _load_csv(path, DELIMITERS[suffix], texts)
        elif suffix in JSON:
            table = _load_json(path)
        else:
            table = parquet.read_table(path)
        names = table.column_names  # decodes them
    except ArrowInvalid as error:
        why = str(error).strip()
        if suffix in JSON:
            why = _count_from_1(path, why)
        raise UsageError(f"{name} is not a table", why=why) from error
    except UnicodeDecodeError as error:
        raise _build_encoding_error(name, f"the names of its columns: {error}") from error
    if not table.num_rows:
        raise UsageError(f"{name} has no rows")
    if twice := sorted(title for title, count in Counter(names).items() if count > 1):
        raise UsageError(f"{name} has several columns of the same name", why=", ".join(twice))
    return table


def _load_csv(path: Path, delimiter: str, texts: Collection[str]) -> pa.Table:
    """Load a text file whose first line names the columns.

    The cells of a column decide its type, unless it is among `texts`.
    """
    import pyarrow as pa
    from pyarrow import csv

    types = dict.fromkeys(texts, pa.string())
    return csv.read_csv(
        path,
        read_options=csv.ReadOptions(use_threads=False),  # with one thread, errors name the row
        parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=csv.ConvertOptions(strings_can_be_null=False, check_utf8=False, column_types=types),
    )


def _load_json(path: Path) -> pa.Table:
    """Load a file with an object a line. JSON has no dates, so texts that look like dates stay texts."""
    import pyarrow as pa
    from pyarrow import json

    options = json.ReadOptions(use_threads=False, block_size=BLOCK)
    table = json.read_json(path, options)
    dates = [pa.field(column.name, pa.string()) for column in table.schema if pa.types.is_timestamp(column.type)]
    if not dates:
        return table
    types = json.ParseOptions(explicit_schema=pa.schema(dates), unexpected_field_behavior="infer")
    return json.read_json(path, options, types).select(table.column_names)


def _count_from_1(path: Path, message: str) -> str:
    """Return an error of pyarrow on JSON with the row as it is counted elsewhere.

    pyarrow counts the rows of each block from 0; in a file of several blocks, the number says nothing.
    """
    is_single = path.stat().st_size <= BLOCK
    return ROW.sub(lambda match: f" in row {int(match[1]) + 1}" if is_single else "", message)


def _refuse_utf_16(path: Path, name: str) -> None:
    """Refuse a text file in UTF-16, which a reader of UTF-8 takes for a table of another form."""
    with path.open("rb") as file:
        start = file.read(START)
    if start.startswith(UTF_16):
        raise _build_encoding_error(name, "it begins with the mark of UTF-16")
    if start.count(0) > len(start) / 3:  # half of the bytes of Latin letters
        raise _build_encoding_error(name, f"byte {start.index(0)} is 0, as in UTF-16")


def _build_encoding_error(name: str, why: str) -> UsageError:
    return UsageError(f"{name} is not text in UTF-8", why=why, hint="save it as UTF-8")


def read_lines(path: Path, name: str) -> Columns:
    """Read the column `text`: one text a line, without empty lines."""
    _refuse_utf_16(path, name)
    try:
        texts = [line for line in path.read_text("utf-8-sig").split("\n") if line.strip()]
    except UnicodeDecodeError as error:
        raise _build_encoding_error(name, str(error)) from error
    if not texts:
        raise UsageError(f"{name} has no lines")
    return {"text": np.array(texts, dtype=object)}


class _Table(Mapping[str, Values]):
    """Columns of a table, each converted on access, so that errors in unused columns do not matter.

    Access to a column with a missing value raises UsageError, unless `nan` is set: a missing number is NaN then, and a
    missing text the empty text.
    """

    def __init__(self, table: pa.Table, name: str, *, nan: bool) -> None:
        self._columns = dict(zip(table.column_names, table.columns, strict=True))
        self._name, self._nan = name, nan

    def __getitem__(self, title: str) -> Values:
        values: Values = _convert_column(self._columns[title], title, self._name, nan=self._nan)
        return values

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _convert_column(column: pa.ChunkedArray, title: str, name: str, *, nan: bool) -> Any:
    """Return one value for each row: an array, or a list of arrays if rows are lists of several lengths."""
    import pyarrow as pa

    is_text = _is_text(column.type)
    numbers = any(check(column.type) for check in (pa.types.is_integer, pa.types.is_floating, pa.types.is_null))
    if column.null_count and nan and numbers:
        return column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    if nan and is_text:
        column = column.fill_null("")
    if column.null_count:
        row = column.is_null().to_pylist().index(True) + 1
        accepts = "the model accepts NaN for missing values" if numbers else "it may count as the empty text"
        raise UsageError(
            f"{name}: column {title!r} is empty in row {row}",
            why=f"{column.null_count} of {len(column)} rows have no value",
            hint="fill it in, or leave the row out"
            + (f"; if {accepts}: `{{path: {name}, missing: nan}}`" if numbers or is_text else ""),
        )
    if pa.types.is_nested(column.type):
        try:
            rows = [np.asarray(row) for row in column.to_pylist()]
        except ValueError as error:  # inner lists differ in length
            raise UsageError(f"{name}: column {title!r} is not an array in every row", why=str(error)) from error
        return np.stack(rows) if len({row.shape for row in rows}) == 1 else rows
    if is_text:
        try:
            return np.array(column.to_pylist(), dtype=object)
        except UnicodeDecodeError as error:
            raise _build_encoding_error(name, f"column {title!r}: {error}") from error
    return column.to_numpy()
