"""Check of the metrics that a stage returned: named, finite numbers."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from numbers import Integral, Real
from typing import Any, get_args

from orun.core.metrics import Better, Estimate, Metric, Noise, Quantity, Unit, find_quantity
from orun.core.serialization import Record, decode, encode, replace
from orun.errors import OutputRefused

SAVE = "Save the model: onnx.save(model, context.result)"
# Fields of a metric with a fixed set of values: what the value is called, and the allowed values.
CHOICES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "unit": ("unit", get_args(Unit)),
    "better": ("direction", get_args(Better)),
    "noise": ("noise", get_args(Noise)),
}
DECLARED = "Return each of them, or take it out of `metrics` of @orun.stage"
HINT = "Return a mapping of names to finite numbers or orun.Metric"


def check_metrics(stage: str, returned: object, declared: Mapping[str, Quantity]) -> dict[str, Metric]:
    """Return the metrics by name.

    Args:
        stage: the stage's id, for errors.
        returned: return value of its function: a mapping of names to numbers or `Metric`, or None.
        declared: what the kind declares of its metrics, by name; a number gets unit and direction from it.

    Raises:
        OutputRefused: for anything else, a number that is not finite, an interval that does not include its value, or
            another unit or direction than the declared one. An interval may be unbounded.
    """
    if returned is None:
        return {}
    if not isinstance(returned, Mapping):
        name = type(returned).__name__
        message = f"{stage} returned {'an' if name[0] in 'aeiou' else 'a'} {name}, which holds no metrics"
        raise OutputRefused(stage, message, hint=SAVE if hasattr(returned, "SerializeToString") else HINT)
    return {
        _check_name(stage, name): _convert_metric(stage, name, value, find_quantity(declared, name))
        for name, value in returned.items()
    }


def require_declared(stage: str, metrics: Collection[str], declared: Collection[str]) -> None:
    """Refuse metrics that lack a declared name: a gate on it would find nothing to judge.

    Raises:
        OutputRefused: when a name is missing; `accuracy[label=3]` stands for `accuracy`.
    """
    returned = {name.partition("[")[0] for name in metrics} | {*metrics}
    if missing := [name for name in declared if name not in returned]:
        raise OutputRefused(
            stage,
            f"{stage} did not return {', '.join(map(repr, missing))}",
            why=f"it declares the metrics {', '.join(declared)}, and returned {', '.join(metrics) or 'none'}",
            hint=DECLARED,
        )


def _check_name(stage: str, name: object) -> str:
    if not isinstance(name, str) or not name or not name.isprintable():
        why = "a name is a text of printable characters, not empty"
        raise _build_error(stage, f"{stage} returned a metric that is named {name!r}", why=why)
    return name


def _convert_metric(stage: str, name: str, value: object, quantity: Quantity) -> Metric:
    if isinstance(value, Real):
        try:
            value = Metric(float(value), quantity.unit or "", quantity.better)
        except OverflowError:
            raise _build_error(stage, f"{stage} returned a metric {name!r} that is too large for a number") from None
    subject, number = ("value", value.value) if isinstance(value, Metric) else ("it", value)
    if not isinstance(value, Metric) or not hasattr(number, "__float__"):  # text has none, but `float` reads it
        why = f"{subject} is a {type(number).__name__}"
        raise _build_error(stage, f"{stage} returned a metric {name!r} that is no number", why=why)
    interval: object = value.interval
    if not isinstance(interval, Estimate | None):
        problem = f"interval is a {type(interval).__name__} (allowed: orun.Estimate(value, low, high), or None)"
        raise _build_error(stage, f"{_format_problem(stage, name)}: {problem}")
    for field, number in _iter_numbers(value):
        unbounded = math.isinf(number) and field.endswith((".low", ".high"))  # too few samples to bound it
        if not math.isfinite(number) and not unbounded:
            raise _build_error(
                stage, f"{stage} returned a metric {name!r} that is not finite", why=f"{field} is {number}"
            )
    for field, (noun, allowed) in CHOICES.items():
        if (chosen := getattr(value, field)) not in allowed:
            listed = ", ".join(choice or "or empty" for choice in allowed)
            raise _build_error(stage, f"{_format_problem(stage, name)}: unknown {noun} {chosen!r} (allowed: {listed})")
    try:
        metric = decode(Metric, encode(replace(_replace_numbers(value), value=float(value.value))))
    except (TypeError, ValueError) as error:
        raise _build_error(stage, f"{_format_problem(stage, name)}: {error}") from error
    _require_intervals(stage, name, metric)
    _require_quantity(stage, name, metric, quantity)
    return metric


def _require_quantity(stage: str, name: str, metric: Metric, quantity: Quantity) -> None:
    """Refuse another unit or direction than the declared one, by which gates were checked before anything ran."""
    if quantity.unit is None or (metric.unit, metric.better) == (quantity.unit, quantity.better):
        return
    declared, returned = (f"unit {item.unit!r}, better {item.better!r}" for item in (quantity, metric))
    why = f"declared: {declared}; returned: {returned}"
    raise _build_error(stage, f"{stage} returned {name!r} otherwise than its kind declares it", why=why)


def _format_problem(stage: str, name: str) -> str:
    return f"`{stage}` returned an invalid metric {name!r}"


def _replace_numbers(value: Any) -> Any:
    """Replace numbers of any library by those of Python, which can be encoded."""
    if isinstance(value, Record):
        return replace(value, **{field: _replace_numbers(getattr(value, field)) for field in value.__struct_fields__})
    if isinstance(value, Mapping):
        return {name: _replace_numbers(item) for name, item in value.items()}
    if isinstance(value, bool):
        return value
    if isinstance(value, Real):
        return int(value) if isinstance(value, Integral) else float(value)
    return value


def _require_intervals(stage: str, name: str, metric: Metric) -> None:
    """Refuse an interval that does not include its value: a gate is judged by the interval alone."""
    estimates = [(path, record) for path, record in _iter_records(metric) if isinstance(record, Estimate)]
    if metric.interval:
        estimates.append(("interval.", replace(metric.interval, value=metric.value)))
    for path, estimate in estimates:
        if not estimate.holds:
            why = f"{path.rstrip('.')}: {estimate.value:g} is not between {estimate.low:g} and {estimate.high:g}"
            raise _build_error(stage, f"{stage} returned a metric {name!r} whose interval does not hold it", why=why)


def _iter_numbers(value: Record) -> Iterator[tuple[str, float]]:
    for path, record in _iter_records(value):
        for field in record.__struct_fields__:
            if isinstance(item := getattr(record, field), Real):
                yield f"{path}{field}", float(item)


def _iter_records(value: Record, path: str = "") -> Iterator[tuple[str, Record]]:
    """Yield a record and all records in it, each with the path to its fields: `reference.ratio.`."""
    yield path, value
    for field in value.__struct_fields__:
        item = getattr(value, field)
        if isinstance(item, Record):
            yield from _iter_records(item, f"{path}{field}.")
        elif isinstance(item, Mapping):
            for key, record in item.items():
                yield from _iter_records(record, f"{path}{field}.{key}.")


def _build_error(stage: str, message: str, why: str = "") -> OutputRefused:
    return OutputRefused(stage, message, why=why, hint=HINT)
