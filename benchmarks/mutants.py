"""Random mistakes in documents (nested mappings and lists), in lines of text, and in bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from random import Random
from typing import Any

Place = tuple[Any, ...]  # keys and indices from the top

COUNTS = (1, 1, 1, 2, 3, 5)  # numbers of mistakes in a file
MISTAKES = {"value": 7, "missing": 2, "another part": 3, "key": 3, "further key": 3, "letter": 2}  # with their weights
NESTED = 0.02  # probability that a text is nested in lists
DEPTHS = (70, 900, 100_000)  # depths of these lists
BYTES = (b"\0", b"\xff", b"\xef\xbb\xbf", b"{", b"}", b"[", b'"', b"\\", b"\n", b"1e999", b"NaN", b"9" * 5000, b"\xc3")
LETTERS = "${}.:/%\n\t0é-\"'[]=\\#,\0\u2028\ud800"


def mutated(document: Any, values: Sequence[Any], keys: Sequence[str], random: Random) -> Any:
    """Copy a document and make a few mistakes in it.

    Args:
        document: nested mappings and lists.
        values: replacements for its values.
        keys: replacements for its keys.
        random: source of all choices.
    """
    document = deepcopy(document)
    for _ in range(random.choice(COUNTS)):
        places = [place for place in places_of(document) if place]
        if places:
            _err(document, random.choice(places), places, (values, keys), random)
    return document


def mutated_bytes(content: bytes, random: Random) -> bytes:
    """Change a few bytes of a file: insert, overwrite, remove, repeat or cut off a part, or nest the file in lists."""
    for _ in range(random.choice(COUNTS)):
        first, last = sorted(random.randrange(len(content) + 1) for _ in range(2))
        last = min(last, first + random.choice((1, 8, 1000)))
        part = content[first:last]
        content = random.choice(
            (
                content[:first] + random.choice(BYTES) + content[first:],
                content[:first] + random.randbytes(len(part)) + content[last:],
                content[:first] + content[last:],
                content[:first] + part * random.choice((2, 100)) + content[last:],
                content[:first],
            )
        )
    depth = random.choice(DEPTHS) if random.random() < NESTED else 0
    return b"[" * depth + content + b"]" * depth


def mutated_lines(text: str, lines: Sequence[str], random: Random) -> str:
    """Change a few lines of a text: replace, insert, edit, split, remove or repeat a line.

    Args:
        text: the text.
        lines: replacements for its lines.
        random: source of all choices.
    """
    mutated_text = text.splitlines()
    for _ in range(random.choice(COUNTS)):
        at = random.randrange(len(mutated_text) + 1)
        line = mutated_text.pop(at) if at < len(mutated_text) else ""
        letter = random.randrange(len(line) + 1)
        mutated_text[at:at] = random.choice(
            (
                [random.choice(lines)],
                [line, random.choice(lines)],
                [line[:letter] + random.choice(LETTERS) + line[letter + 1 :]],
                [line[:letter], line[letter:]],
                [line] * random.choice((0, 2, 1000)),
                [line + random.choice(lines)],
            )
        )
    return "\n".join(mutated_text)


def places_of(document: Any, above: Place = ()) -> Iterator[Place]:
    """Yield every place in a document, the top first."""
    yield above
    if isinstance(document, dict | list):
        for key in document if isinstance(document, dict) else range(len(document)):
            yield from places_of(document[key], (*above, key))


def _err(
    document: Any,
    place: Place,
    places: Sequence[Place],
    replacements: tuple[Sequence[Any], Sequence[str]],
    random: Random,
) -> None:
    """Make a mistake at a place."""
    *above, last = place
    parent, value = _at(document, above), _at(document, place)
    values, keys = replacements
    mistake = random.choices(tuple(MISTAKES), tuple(MISTAKES.values()))[0]
    if mistake == "value":
        parent[last] = deepcopy(random.choice(values))
    elif mistake == "missing":
        del parent[last]
    elif mistake == "another part":
        parent[last] = deepcopy(_at(document, random.choice(places)))
    elif mistake == "key" and isinstance(parent, dict):
        parent[random.choice(keys)] = parent.pop(last)
    elif mistake == "further key" and isinstance(parent, dict):
        parent[random.choice(keys)] = deepcopy(random.choice(values))
    elif isinstance(value, str) and value:
        at = random.randrange(len(value))
        parent[last] = value[:at] + random.choice(LETTERS[:-3]) + value[at + 1 :]
    else:
        parent[last] = [value]


def _at(document: Any, place: Sequence[Any]) -> Any:
    for key in place:
        document = document[key]
    return document
