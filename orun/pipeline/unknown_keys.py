"""Unknown keys of a mapping: which key was probably meant, and what to do instead."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping
from typing import Any

from orun.pipeline.fragments import CONDITION
from orun.pipeline.instances import read_links
from orun.pipeline.nodes import Node, Path, Span
from orun.text.suggestions import find_closest

FILES = (".onnx", ".pt", ".pth", ".safetensors", ".joblib", ".pkl", ".npz", ".csv")
WHOLE_PART = re.compile(r"(\d+), *$")  # of a decimal with a comma


def guess_key(key: str, known: Collection[str], noun: str) -> str:
    """Return the known key that was probably meant; empty if a note says what to do instead."""
    from orun.text.aliases import note, resolve_alias

    if separated := separate(key, known):
        return separated
    return resolve_alias(key, known) if note(key, noun) else find_closest(key, known)


def separate(text: str, known: Collection[str]) -> str:
    """Return a known key and its value with the space that `key:value` lacks; empty if it is no such text."""
    key = find_joined_key(text, known)
    return f"{key}: {text[len(key) + 1 :].strip()}" if key else ""


def find_joined_key(key: str, known: Collection[str]) -> str:
    """Return the known key before a ':' without a space after it: YAML reads key and value as one key."""
    name, colon, value = key.partition(":")
    return name if colon and value and name in known else ""


def names_stages(value: Node, stages: Collection[str]) -> bool:
    """Return whether a value could stand at `needs`: a stage, or a list or mapping of stages."""
    links = read_links(value)
    return bool(links) and all(link.stage in stages for link in links)


def suggest_import(text: str) -> str:
    """Return how a file comes into a pipeline, if a text that should name a stage is one; else an empty text."""
    if not text.endswith(FILES):
        return ""
    example = "`import: {uses: convert/onnx, with: {path: FILE}}`"
    return f"a stage needs stages: a file is a parameter of one, as in {example}"


def suggest_instead(span: Span, key: str, noun: str, schema: Mapping[str, Any], path: Path) -> str:
    """Return what to do about an unknown key: orun's word for another tool's key, or the list of known keys."""
    from orun.text.aliases import note

    before_comma = WHOLE_PART.search(span.source[: span.column - 1])
    if before_comma and key[:1].isdecimal() and noun == CONDITION:
        return f"a decimal has a point: {before_comma[1]}.{key}, not {before_comma[1]},{key}"
    inputs = schema["properties"] if path[-1:] == ("needs",) else ()
    if inputs and not find_closest(key, inputs):
        return "to only wait for stages, list them: `needs: [STAGE, STAGE]`; the first of the list is the input"
    return note(key, noun) or str(schema.get("x-hint", ""))


def describe_odd_space(key: str, near: str) -> str:
    """Describe a special space in a key, which does not indent; empty if a similar key is suggested."""
    odd = next((letter for letter in key if letter.isspace() and letter != " "), "")
    if not odd or near:
        return ""
    return f"U+{ord(odd):04X} in it is {unicodedata.name(odd, 'a control character')}, which does not indent"
