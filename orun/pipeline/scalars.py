"""Plain scalars as YAML 1.2 (core schema) reads them: `1e-3` is a number; `on`, `12:30` and `1_7` are text."""

from __future__ import annotations

import math
import re

Value = str | float | bool | None

_CONSTANTS: dict[str, bool | None] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_INTEGER = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
MAX_DIGITS = 400  # more digits than any double; int() refuses thousands


def resolve(text: str) -> Value:
    """Return the value of a plain (unquoted) scalar.

    Raises:
        ValueError: for a number that no finite value can hold (`.nan`, `.inf`, `1e999`).
    """
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in "+-.0123456789":
        return text
    if _NOT_FINITE.fullmatch(text):
        raise ValueError(f"{text} is not a finite number")
    if not any(form.fullmatch(text) for form in (_INTEGER, _OCTAL, _HEXADECIMAL, _FLOAT)):
        return text
    if len(text) > MAX_DIGITS:
        raise ValueError(f"a number of {len(text)} digits is too large")
    if _INTEGER.fullmatch(text):
        return int(text)
    if text[:2] in ("0o", "0x"):
        return int(text, 0)
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large")
    return number
