"""Templates of the report, in which every text stays text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from orun.report.html.chart import format_percent
from orun.report.terminal import Style
from orun.text.positions import format_position
from orun.text.suggestions import show_path
from orun.text.units import show

# Characters that are invisible or change the order of others: controls, marks of direction, surrogates, no characters.
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff0-\ufffb"
    "\ufffe\uffff\ud800-\udfff\U000e0000-\U000e0fff]"
)
MARKS: dict[Style, str] = {"good": "\u2713", "bad": "\u2717", "doubt": "?", "dim": "", "strong": "", "": ""}


def render(template: str, **context: Any) -> str:
    """Return a template's text with every value escaped and made visible."""
    return _create_environment().get_template(template).render(context)


@cache
def _create_environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("orun.report.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: value if isinstance(value, Markup) else escape_invisible(str(value)),
    )
    environment.filters |= {
        "code": render_code, "moment": render_time, "near": show_path, "percent": format_percent,
        "place": format_position, "prose": render_prose, "show": show,
    }  # fmt: skip
    environment.globals["MARKS"] = MARKS
    return environment


def escape_invisible(text: str) -> str:
    r"""Return the text with invisible characters written out: `\x1b`, `\u202e`."""
    return UNSEEN.sub(lambda match: _escape_character(ord(match[0])), text)


def _escape_character(code: int) -> str:
    if code > 0xFFFF:  # noqa: PLR2004 - the last of four digits
        return f"\\U{code:08x}"
    return f"\\u{code:04x}" if code > 0xFF else f"\\x{code:02x}"  # noqa: PLR2004 - the last of two digits


def render_code(text: str) -> Markup:
    """Return text of a file or a machine as an element; nothing for an empty text."""
    return Markup("<code>{}</code>").format(escape_invisible(text)) if text else Markup()


def render_prose(text: str) -> Markup:
    """Return a sentence in which text between backquotes is code."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:  # a backquote has no partner
        return Markup.escape(escape_invisible(text))
    return Markup().join(
        render_code(piece) if number % 2 else escape_invisible(piece) for number, piece in enumerate(pieces)
    )


def format_parameter(text: str) -> str:
    """Return the JSON value of a parameter as people write it: `int8`, `cosine, recall_at_1`, `low 0, high 1`."""
    try:
        return _format_value(json.loads(text))
    except ValueError:
        return text


def _format_value(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_format_value(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(_format_value, value))
    return value if isinstance(value, str) else json.dumps(value)


def render_time(seconds: float) -> Markup:
    """Return a time in UTC, to the second."""
    time = datetime.fromtimestamp(seconds, UTC)
    texts = (time.strftime("%Y-%m-%dT%H:%M:%SZ"), time.strftime("%Y-%m-%d %H:%M:%S UTC"))
    return Markup('<time datetime="{}">{}</time>').format(*texts)


def assign_anchors(names: Iterable[str]) -> dict[str, str]:
    """Return a unique id for each stage that can be typed in a link: `stage-int8`, `stage-int8-2`."""
    ids: dict[str, str] = {}
    used: set[str] = set()
    for name in names:
        stem = f"stage-{re.sub('[^A-Za-z0-9_.]+', '-', name).strip('-') or 'x'}"
        chosen, number = stem, 1
        while chosen in used:
            number += 1
            chosen = f"{stem}-{number}"
        used.add(chosen)
        ids[name] = chosen
    return ids
