"""Tokenization of the texts of a table by a tokenizer of `transformers`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from orun.errors import UsageError
from orun.measure.dataset import Array, Dataset
from orun.stages._data.columns import Columns, get_column, read_fields, read_labels
from orun.stages._data.packages import need
from orun.stages._data.source import Source, Text

UNLIMITED = 10**6  # tokens; transformers writes 10**30 where a tokenizer has no limit
FILES = ("tokenizer", "vocab", "tekken")  # prefixes of a tokenizer's files
VOCABULARIES = (".model", ".spm", ".tiktoken", ".bpe")


def tokenize(root: Path, name: str, columns: Columns, source: Source) -> Dataset:
    """Tokenize every text by itself, so that texts are padded only if `pad` is set.

    Raises:
        UsageError: when a column is missing or holds no text, or the tokenizer cannot be read or cannot do as declared.
    """
    how = source.text
    assert how is not None  # noqa: S101 - the caller checks
    texts = [_read_texts(name, columns, title) for title in (how.column, how.pair) if title is not None]
    tokenizer = load_tokenizer(root, how.tokenizer)
    options: dict[str, Any] = (
        {"truncation": True} if how.length is None else {"truncation": True, "max_length": how.length}
    )
    _require_length(how, tokenizer)
    if how.pad:
        options["padding"] = "max_length"
    rows = [tokenizer(*row, **options) for row in zip(*texts, strict=True)]
    inputs: dict[str, list[Array]] = {key: [np.array(row[key], np.int64) for row in rows] for key in rows[0]}
    return Dataset(inputs, read_labels(name, columns, source), fields=read_fields(name, columns, source))


def _require_length(how: Text, tokenizer: Any) -> None:
    """Refuse lengths that `transformers` would ignore, and padding that it cannot do."""
    added = tokenizer.num_special_tokens_to_add(pair=how.pair is not None)
    if how.length is not None and how.length <= added:
        raise UsageError(
            f"`length: {how.length}` leaves no room for a text",
            why=f"special tokens that {how.tokenizer} adds: {added}",
            hint=f"`length: {added + 1}` or more",
        )
    if how.pad and tokenizer.pad_token is None:
        raise UsageError(
            f"{how.tokenizer} cannot pad texts, because it has no padding token",
            hint="leave `pad` out, or set `tokenizer.pad_token` and save the tokenizer again",
        )
    if how.pad and how.length is None and tokenizer.model_max_length >= UNLIMITED:
        raise UsageError(
            f"`pad` needs a length, because {how.tokenizer} states no limit",
            hint="say how many tokens the model takes: `text: {length: 128, pad: true}`",
        )


def _read_texts(name: str, columns: Columns, title: str) -> list[str]:
    values = get_column(name, columns, title)
    for row, value in enumerate(values, 1):
        if not isinstance(value, str):
            raise UsageError(f"{name}: column {title!r} is not text in row {row}", why=f"it is {value!s:.80}")
    return [str(value) for value in values]


def is_tokenizer(folder: Path) -> bool:
    """Return whether a folder holds the files of a tokenizer."""
    return any(
        path.is_file() and (path.name.startswith(FILES) or path.suffix in VOCABULARIES) for path in folder.glob("*")
    )


def load_tokenizer(root: Path, folder: str) -> Any:
    """Return a tokenizer of `transformers`; raise UsageError when the folder holds none."""
    need("transformers", f"the tokenizer {folder}")
    if not is_tokenizer(root / folder):
        raise UsageError(  # transformers 5.0 would make an empty tokenizer
            f"{folder} is not a tokenizer folder",
            why="it holds no tokenizer.json, tokenizer_config.json or vocabulary",
            hint="tokenizer.save_pretrained(folder)",
        )
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(root / folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder} is not a tokenizer folder", why=str(error).strip().splitlines()[0]) from error
