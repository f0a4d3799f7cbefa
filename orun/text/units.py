"""Durations, sizes and proportions as people write and read them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from orun.core.metrics import Estimate, Unit
from orun.core.serialization import Record

DURATIONS: Mapping[str, float] = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0,
}  # fmt: skip
SIZES: Mapping[str, int] = {
    "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip
ENERGIES: Mapping[str, float] = {"uJ": 1e-6, "mJ": 1e-3, "J": 1.0, "kJ": 1e3}
# Other spellings of units, in small letters.
SPELLED: Mapping[str, str] = {
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("msec", "millis", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("usec", "micros", "microsecond", "microseconds"), "us"),
    **dict.fromkeys(("m", "mins", "minute", "minutes"), "min"),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("day", "days"), "d"),
    **dict.fromkeys(("byte", "bytes"), "B"),
    **dict.fromkeys(("k", "kilobytes"), "kB"),
    **dict.fromkeys(("megabyte", "megabytes"), "MB"),
    **dict.fromkeys(("g", "gigabyte", "gigabytes"), "GB"),
    **dict.fromkeys(("percent", "pct"), "%"),
}


class Form(Record, frozen=True):
    """Written form of a quantity, for messages.

    Attributes:
        noun: its noun with an article.
        examples: of its text.
        plain: unit of a plain number; empty if it has none.
    """

    noun: str
    examples: str
    plain: str = ""

    def describe(self, bounds: str = "", *, with_unit: bool = False) -> str:
        """Describe the form, for a message: `a size such as 300MB (a plain number is in bytes)`.

        `bounds` is a clause after the noun; with `with_unit` a plain number is refused.
        """
        plain = f" (a plain number is in {self.plain})" if self.plain and not with_unit else ""
        return f"{self.noun}{bounds} such as {self.examples}{plain}"


DURATION_FORM = Form("a duration", "12ms, 1.5s, 2min or 1h", "seconds")
ENERGY_FORM = Form("an energy", "20mJ or 1.5J", "joules")
SIZE_FORM = Form("a size", "300MB, 22.9kB or 1.5GiB", "bytes")
RATIO_FORM = Form("a proportion", "5% or 0.05")
THRESHOLD_FORMS = "a number, or one with a unit such as 12ms, 300MB, 5% or 1.5x"

NUMBER = r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
PER_SECOND = "/s"
THRESHOLD_UNITS = (*DURATIONS, *SIZES, *ENERGIES, "%", PER_SECOND, "x")
PERCENT = 100
LARGEST = 1e200  # finite in the smallest unit, too
_QUANTITY = re.compile(rf"({NUMBER}) *([a-zA-Zµ%]*|{PER_SECOND})")


def parse_duration(text: str | float) -> float:
    """Return the seconds of `12ms`, `1.5s`, `2min`, `1h` or a number of seconds.

    Raises:
        ValueError: when it is none of these; the message lists the forms.
    """
    return _parse(text, DURATIONS, "s", DURATION_FORM)


def parse_size(text: str | float) -> int:
    """Return the bytes of `300MB` (10^6), `300MiB` (2^20) or a number of bytes, rounded to whole ones.

    Raises:
        ValueError: when it is none of these; the message lists the forms.
    """
    return round(_parse(text, SIZES, "B", SIZE_FORM))


def parse_energy(text: str | float) -> float:
    """Return the joules of `20mJ`, `1.5J` or a number of joules.

    Raises:
        ValueError: when it is none of these; the message lists the forms.
    """
    return _parse(text, ENERGIES, "J", ENERGY_FORM)


def parse_ratio(text: str | float) -> float:
    """Return the proportion that `5%`, `0.05` or a number says.

    Raises:
        ValueError: when it is none of these; the message lists the forms.
    """
    return _parse(text, {"%": 0.01, "": 1.0}, "", RATIO_FORM)


def split(text: str) -> tuple[float, str] | None:
    """Return number and unit of `12 ms`; the unit may be empty. None if it is no number, or too large."""
    matched = _QUANTITY.fullmatch(text.strip())
    if not matched or abs(number := float(matched[1])) > LARGEST:
        return None
    return number, matched[2]


def respell(text: str) -> str:
    """Return a quantity with its unit spelt right: `2MB` for `2mb`, `2 MB` for `2 megabytes`; else an empty text."""
    if not (parts := split(text)):
        return ""
    unit = "mb" if parts[1] == "M" else parts[1].lower()
    spelling = next((name for name in (*DURATIONS, *SIZES, *ENERGIES) if name.lower() == unit), "") or SPELLED.get(
        unit, ""
    )
    return text.strip().replace(parts[1], spelling) if spelling and spelling != parts[1] else ""


def _parse(text: str | float, units: Mapping[str, float], default: str, form: Form) -> float:
    parts = split(str(text))
    factor = units.get(parts[1] or default) if parts else None
    if parts is None or factor is None:
        raise ValueError(f"{text!r} is not {form.describe()}")
    # 12 / 1000 is the double nearest to 0.012; 12 * 1e-3 is not always.
    return parts[0] / round(1 / factor) if factor < 1 else parts[0] * factor


_TIMES: Sequence[tuple[float, str]] = ((1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s"))
_BYTES: Sequence[tuple[float, str]] = ((1, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB"))
_JOULES: Sequence[tuple[float, str]] = ((1e-6, "µJ"), (1e-3, "mJ"), (1.0, "J"), (1e3, "kJ"))
_SCALES: Mapping[str, Sequence[tuple[float, str]]] = {"s": _TIMES, "B": _BYTES, "J": _JOULES}
SUFFIXES: Mapping[str, str] = {"x": "x", "1/s": PER_SECOND}
_MINUTE, _HOUR = 60, 3600
FULL = 9  # significant digits that tell a value from a limit that looks the same
NINES = 6  # most digits of a value that is nearly 1: float32 has hardly more
SMALLEST = 0.05  # percent that one decimal shows
LONGEST = 1e15  # from which a number is shown with an exponent


def show(value: float, unit: Unit) -> str:
    """Show a measured value to three significant digits: `12.3 ms`, `22.9 MB`, `20 mJ`, `97.3 %`, `1.50x`, `81.2/s`.

    A value that is nearly 1 gets the digits that tell it from 1: `99.95 %`, `0.99998`.
    """
    if not math.isfinite(value):
        return str(value)
    if unit == "s":
        return _show_time(value)
    if unit in _SCALES:
        return _show_scaled(value, _SCALES[unit])
    if unit == "ratio":
        return f"{_show_near(100 * value, 100)} %" if math.isfinite(100 * value) else f"{_show_digits(value)}x"
    if unit == "x":
        return f"{value:.2f}x" if abs(value) < LONGEST else f"{_show_digits(value)}x"
    return f"{_show_digits(value)}{PER_SECOND}" if unit == "1/s" else _show_near(value, 1, 4)


def show_in_full(value: float, unit: Unit) -> str:
    """Show a finite value to nine significant digits: `5.04138825 %`, `12.3456789 ms`."""
    if unit == "ratio":
        return f"{_show_digits(100 * value, FULL)} %"
    if unit in _SCALES:
        return _show_scaled(value, _SCALES[unit], FULL)
    return f"{_show_digits(value, FULL)}{SUFFIXES.get(unit, '')}"


def show_beside(value: float, unit: Unit, limit: float) -> str:
    """Show a value with more digits where the usual digits would make it look like a limit that it is not."""
    shown = show(value, unit)
    differs = not math.isclose(value, limit, rel_tol=1e-9, abs_tol=1e-12)
    return show_in_full(value, unit) if shown == show(limit, unit) and differs and math.isfinite(value) else shown


def show_amount(value: float, unit: Unit, written: str = "%", limit: float | None = None) -> str:
    """Show a value in its unit; a proportion is shown in percent if `written`, the threshold next to it, is.

    `limit` is that of the threshold: the value gets digits that tell it from the limit.
    """
    unit = "" if unit == "ratio" and "%" not in written else unit
    return show(value, unit) if limit is None else show_beside(value, unit, limit)


def show_change(old: float | None, new: float | None, unit: Unit) -> str:
    """Return how far a figure moved: `+1.2 points` of a proportion in percent, `-4.0 %` of any other.

    Empty where that says nothing: of a figure that is not there or not finite, and from 0 or below.
    """
    if old is None or new is None or not (math.isfinite(old) and math.isfinite(new)):
        return ""
    if unit == "ratio":
        return f"{_show_signed(PERCENT * (new - old))} points"
    if old <= 0:
        return ""
    percent = PERCENT * (new / old - 1)
    is_lost = 0 < abs(percent) < SMALLEST  # in the rounding
    return f"{_show_signed(percent, 1) if is_lost else f'{percent:+.1f}'} %"


def _show_signed(value: float, significant: int = 2) -> str:
    return f"{'-' if value < 0 else '+'}{_show_digits(abs(value), significant)}"


def show_interval(interval: Estimate | None, unit: Unit, written: str = "%") -> str:
    """Show `7.95 ms to 8.2 ms`; `7.95 ms and up` where nothing bounds it above, `unknown` where nothing does at all.

    Empty for an exact value.
    """
    if interval is None:
        return ""
    low, high = (show_amount(end, unit, written) for end in (interval.low, interval.high))
    if math.isinf(interval.low):
        return "unknown" if math.isinf(interval.high) else f"{high} and down"
    return f"{low} and up" if math.isinf(interval.high) else f"{low} to {high}"


def _show_time(seconds: float) -> str:
    if abs(seconds) < _MINUTE - 0.05:
        return _show_scaled(seconds, _TIMES)
    sign, seconds_left = "-" if seconds < 0 else "", round(abs(seconds))
    if seconds_left < _HOUR:
        return f"{sign}{seconds_left // _MINUTE} min {seconds_left % _MINUTE} s"
    if seconds_left >= LONGEST:
        return f"{_show_digits(seconds)} s"
    return f"{sign}{seconds_left // _HOUR} h {seconds_left % _HOUR // _MINUTE} min"


def _show_scaled(value: float, scales: Sequence[tuple[float, str]], significant: int = 3) -> str:
    """Show a number in the largest unit of which there is at least one, after rounding to three digits."""
    factor, name = next(
        ((factor, name) for factor, name in reversed(scales) if abs(value) >= 0.9995 * factor),
        scales[0] if value else next(scale for scale in scales if scale[0] == 1),
    )
    return f"{_show_digits(value / factor, significant)} {name}"


def _show_near(value: float, bound: float, significant: int = 3) -> str:
    """Show a number to so many significant digits, and to more if it would look like a bound that it is not."""
    shown = (_show_digits(value, number) for number in range(significant, NINES + 1))
    return next((text for text in shown if value == bound or text != f"{bound:g}"), f"{bound:g}")


def _show_digits(value: float, significant: int = 3) -> str:
    """Show a number to so many significant digits, without trailing zeros, or an exponent unless tiny or huge."""
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    if magnitude < -significant - 1 or abs(value) >= LONGEST:
        return f"{value:.{significant - 1}e}"
    text = f"{value:.{max(0, significant - 1 - magnitude)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
