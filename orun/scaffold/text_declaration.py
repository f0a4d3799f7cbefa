"""Declaration of a table of texts for a model of tokens: the tokenizer, and the columns that it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from orun.errors import UsageError
from orun.scaffold.model_facts import InputFact, ModelFacts
from orun.scaffold.paths import make_relative
from orun.stages._data.texts import is_tokenizer, load_tokenizer

TEXT = "text"
PAIRS = (  # columns whose names say that their texts are read in pairs
    (TEXT, "text_pair"),
    ("text_a", "text_b"),
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question", "context"),
    ("query", "passage"),
)


def declare_texts(
    data: str,
    features: Mapping[str, bool],
    inputs: Sequence[InputFact],
    facts: ModelFacts,
    folder: Path,
    model_folder: Path,
) -> dict[str, Any]:
    """Return the tokenization of the texts by the tokenizer beside the model; empty when there are no texts.

    `features` are the columns that may be inputs, and whether each holds texts.

    Raises:
        UsageError: without a tokenizer, or when it does not make all inputs, or several columns may be meant.
    """
    texts = [name for name, holds_text in features.items() if holds_text]
    if not texts:
        return {}
    place = _find_tokenizer(model_folder, folder)
    if place is None:
        raise UsageError(
            f"{data} holds texts, and the model takes tokens",
            why="there is no tokenizer with the model, or there are several",
            hint=f"save it in a folder there: tokenizer.save_pretrained({str(model_folder / 'tokenizer')!r})",
        )
    tokenizer = load_tokenizer(Path(), str(place))
    produced = {*tokenizer("")}
    if missing := [item.name for item in inputs if item.name not in produced]:
        raise UsageError(
            f"{data} has no values for {', '.join(missing)}, which a tokenizer does not make",
            why=f"the model takes {', '.join(item.name for item in inputs)}",
            hint="write a function that returns an orun.Dataset with values for all of them: --data file.py:function",
        )
    return {
        TEXT: {
            "tokenizer": make_relative(folder, str(place)),
            **_declare_text_columns(data, texts, make_relative(folder, data), make_relative(folder, str(place))),
            **({"length": facts.longest} if 0 < facts.longest < tokenizer.model_max_length else {}),
        }
    }


def _declare_text_columns(data: str, texts: Sequence[str], path: str, tokenizer: str) -> dict[str, str]:
    """Return the column of the texts, or the two of pairs; empty for the default column.

    Raises:
        UsageError: when several columns may be meant.
    """
    for first, second in PAIRS:
        if {first, second} == {*texts}:
            return {"column": first, "pair": second}
    if TEXT in texts:
        return {}
    if len(texts) > 1:
        raise UsageError(
            f"{data} has several columns of texts: {', '.join(texts)}",
            why="the model takes one text, or a pair of texts",
            hint="leave --data out, and name the column, and `pair` for a second, in the file that orun init writes: "
            f"`data: {{path: {path}, text: {{tokenizer: {tokenizer}, column: {texts[0]}}}}}`",
        )
    return {"column": texts[0]}


def _find_tokenizer(model_folder: Path, folder: Path) -> Path | None:
    """Return the folder of the tokenizer: the model's own, or the only one in that; None without one.

    A folder with the pipeline in it is none: all its files, also the store, would be part of the key.
    """
    inside = sorted(path for path in model_folder.iterdir() if path.is_dir())
    suitable = [
        path
        for path in (model_folder, *inside)
        if is_tokenizer(path) and not folder.absolute().is_relative_to(path.absolute())
    ]
    return suitable[0] if suitable[:1] == [model_folder] or len(suitable) == 1 else None
