"""Elements of HTML and SVG, in which every text is shown as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

Children = str | Iterable[str]

# What is not seen, or changes the order of what is: controls, marks of direction, halves of characters, no characters.
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff0-\ufffb"
    "\ufffe\uffff\ud800-\udfff\U000e0000-\U000e0fff]"
)
ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})
SPECIAL = re.compile(f'{UNSEEN.pattern}|[&<>"]')  # few texts have any of these
VOID = frozenset({"br", "hr", "link", "meta"})


class Markup(str):
    """Text that is markup already; every other text is escaped."""

    __slots__ = ()


def visible(text: str) -> str:
    r"""The text with what cannot be seen written out: `\x1b`, `\u202e`."""
    return UNSEEN.sub(lambda match: _written(ord(match[0])), text)


def _written(code: int) -> str:
    if code > 0xFFFF:  # noqa: PLR2004 - the last of four digits
        return f"\\U{code:08x}"
    return f"\\u{code:04x}" if code > 0xFF else f"\\x{code:02x}"  # noqa: PLR2004 - the last of two digits


def escape(text: str) -> Markup:
    """The text as it stands in a document or an attribute; markup stays as it is."""
    if isinstance(text, Markup):
        return text
    return Markup(visible(text).translate(ENTITIES) if SPECIAL.search(text) else text)


def join(*children: Children) -> Markup:
    """Texts and markup, one after the other."""
    return Markup(
        "".join(escape(part) for child in children for part in ([child] if isinstance(child, str) else child))
    )


def element(name: str, /, *children: Children, **attributes: str | float | None) -> Markup:
    """An element.

    Args:
        name: of the element.
        children: texts and markup.
        attributes: None leaves one out; `class_` is `class`, `data_label` is `data-label`.
    """
    shown = "".join(
        f' {_attribute(key)}="{escape(str(value))}"' for key, value in attributes.items() if value is not None
    )
    return Markup(f"<{name}{shown}>" if name in VOID else f"<{name}{shown}>{join(*children)}</{name}>")


@cache
def _attribute(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def anchors(prefix: str, names: Iterable[str]) -> dict[str, str]:
    """An id for each name that a link can be typed with, no two alike: `stage-int8`, `stage-int8-2`."""
    ids: dict[str, str] = {}
    used: set[str] = set()
    for name in names:
        stem = f"{prefix}-{re.sub('[^A-Za-z0-9_.]+', '-', name).strip('-') or 'x'}"
        chosen, number = stem, 1
        while chosen in used:
            number += 1
            chosen = f"{stem}-{number}"
        used.add(chosen)
        ids[name] = chosen
    return ids
