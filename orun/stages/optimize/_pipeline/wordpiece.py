"""BERT's WordPiece tokenizer as the folder of a `transformers` tokenizer describes it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orun.errors import UsageError
from orun.stages._data.texts import UNLIMITED

FAST, SLOW, CONFIG = "tokenizer.json", "vocab.txt", "tokenizer_config.json"
LONGEST_WORD = 100  # characters of a word, beyond which the operator takes it for an unknown one
HINT = "let your own code tokenize, and keep the model as it is"


@dataclass(frozen=True)
class WordPiece:
    """A tokenizer.

    Attributes:
        vocabulary: the tokens in the order of their ids.
        lowercase: whether texts become lower case.
        strip_accents: whether accents are removed.
        chinese: whether each Chinese character is a word.
        special: the tokens `unk`, `sep`, `pad`, `cls` and `mask`.
        prefix: of a token that continues a word.
        length: most tokens of a text.
    """

    vocabulary: tuple[str, ...]
    lowercase: bool
    strip_accents: bool
    chinese: bool
    special: dict[str, str]
    prefix: str
    length: int


def read_wordpiece(root: Path, name: str, length: int | None) -> WordPiece:
    """Read the tokenizer in the folder `name` of `root`.

    Without a `length`, the tokenizer's own limit counts.

    Raises:
        UsageError: when it is no tokenizer, none that onnxruntime-extensions computes alike, or one without a limit.
    """
    folder = root / name
    config = _load(folder / CONFIG, name) if (folder / CONFIG).is_file() else {}
    if (folder / FAST).is_file():
        tokenizer = _from_fast(_load(folder / FAST, name), config, name, length)
    elif (folder / SLOW).is_file():
        lines = (folder / SLOW).read_text("utf-8").removesuffix("\n").split("\n")
        tokenizer = _from_slow(lines, config, name, length)
    else:
        raise UsageError(
            f"{name} is not the folder of a WordPiece tokenizer",
            why=f"it holds neither {FAST} nor {SLOW}",
            hint="tokenizer.save_pretrained(folder)",
        )
    missing = [token for token in tokenizer.special.values() if token not in tokenizer.vocabulary]
    if missing or not all(tokenizer.vocabulary):
        raise _build_error(name, f"its vocabulary has no {', '.join(missing)}" if missing else "it has an empty token")
    return tokenizer


def _from_fast(document: dict[str, Any], config: dict[str, Any], name: str, length: int | None) -> WordPiece:
    model, normalizer = document.get("model") or {}, document.get("normalizer") or {}
    for part, kind, wanted in (
        ("model", model.get("type", "WordPiece" if "max_input_chars_per_word" in model else None), "WordPiece"),
        ("normalizer", normalizer.get("type"), "BertNormalizer"),
        ("pre-tokenizer", (document.get("pre_tokenizer") or {}).get("type"), "BertPreTokenizer"),
    ):
        if kind != wanted:
            raise _build_error(name, f"its {part} is {kind}, and only {wanted} has an operator")
    if model.get("max_input_chars_per_word", LONGEST_WORD) != LONGEST_WORD:
        raise _build_error(name, f"words of {model['max_input_chars_per_word']} characters are unknown to it")
    if not normalizer.get("clean_text", True):
        raise _build_error(name, "it keeps control characters")
    vocabulary = _order_vocabulary(model["vocab"], name)
    special = _read_special(config, model.get("unk_token", "[UNK]"))
    _require_frame(document.get("post_processor") or {}, special, name)
    if added := [
        token["content"]
        for token in document.get("added_tokens", ())
        if token["content"] not in special.values() and not token["content"].startswith("[unused")
    ]:
        raise _build_error(name, f"it has tokens of its own: {', '.join(added[:5])}")
    lowercase = bool(normalizer.get("lowercase", True))
    return WordPiece(
        vocabulary,
        lowercase,
        _strips_accents(normalizer.get("strip_accents"), lowercase=lowercase),
        bool(normalizer.get("handle_chinese_chars", True)),
        special,
        model.get("continuing_subword_prefix", "##"),
        length or _read_length(config, name),
    )


def _from_slow(lines: list[str], config: dict[str, Any], name: str, length: int | None) -> WordPiece:
    if not config.get("do_basic_tokenize", True):
        raise _build_error(name, "it does not split texts into words (`do_basic_tokenize: false`)")
    lowercase = bool(config.get("do_lower_case", True))
    return WordPiece(
        tuple(lines),
        lowercase,
        _strips_accents(config.get("strip_accents"), lowercase=lowercase),
        bool(config.get("tokenize_chinese_chars", True)),
        _read_special(config, "[UNK]"),
        "##",
        length or _read_length(config, name),
    )


def _load(path: Path, name: str) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise UsageError(f"{path.name} in {name} is not JSON", why=str(error)) from error
    if not isinstance(document, dict):
        raise UsageError(f"{path.name} in {name} is not an object of JSON")
    return document


def _order_vocabulary(vocabulary: dict[str, int], name: str) -> tuple[str, ...]:
    ordered = sorted(vocabulary, key=vocabulary.__getitem__)
    if [vocabulary[token] for token in ordered] != list(range(len(ordered))):
        raise _build_error(name, "its ids are not the numbers from 0 on")
    return tuple(ordered)


def _read_special(config: dict[str, Any], unknown: str) -> dict[str, str]:
    named = {kind: config.get(f"{kind}_token", f"[{kind.upper()}]") for kind in ("unk", "sep", "pad", "cls", "mask")}
    texts = {kind: token["content"] if isinstance(token, dict) else str(token) for kind, token in named.items()}
    return {**texts, "unk": unknown}


def _require_frame(processor: dict[str, Any], special: dict[str, str], name: str) -> None:
    """Require that a text is put between the tokens `cls` and `sep`."""
    frame: list[str] = []
    if processor.get("type") == "TemplateProcessing":
        frame = [part.get("SpecialToken", {"id": "text"})["id"] for part in processor["single"]]
    elif processor.get("type") == "BertProcessing":
        frame = [processor["cls"][0], "text", processor["sep"][0]]
    if frame != [special["cls"], "text", special["sep"]]:
        raise _build_error(name, f"it makes {' '.join(frame) or 'nothing'} of a text, and not [CLS] text [SEP]")


def _strips_accents(stated: bool | None, *, lowercase: bool) -> bool:
    return lowercase if stated is None else stated


def _read_length(config: dict[str, Any], name: str) -> int:
    stated = config.get("model_max_length")
    if not isinstance(stated, (int, float)) or stated >= UNLIMITED:
        raise UsageError(
            f"the tokenizer {name} does not say how many tokens a text may have",
            hint="`length: 512`, or what the model was trained with",
        )
    return int(stated)


def _build_error(name: str, why: str) -> UsageError:
    return UsageError(f"the tokenizer {name} cannot be part of a model", why=why, hint=HINT)
