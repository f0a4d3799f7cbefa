"""Section on latency: the times of all inferences of a model and its reference, as distributions.

An empirical distribution function shows for each time which share of the inferences took no longer. The further left a
line, the faster the model. A tail to the right is a model that is sometimes slow.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from orun.core.run_record import StageResult
from orun.report.html.parts import Scale, Section, drawing, percent
from orun.report.html.source import Source
from orun.report.html.stored import read_samples, read_stored
from orun.report.html.tags import Markup, element, join
from orun.text.units import show

SAMPLES = "samples.npz"
CURVES = ("model", "reference", "baseline")  # by the names of `measure/latency`, in the order of the legend
STEPS = 100  # parts of a curve
CUT = 0.95  # share of the times up to which the axis goes: single late ones would squeeze the rest
HEIGHT, TOP, FOOT = 200, 10, 34  # pixels of a drawing, above its field and below it
SIDE = 0.06  # of the width, left of the field
TICKS = 4


def latency(source: Source) -> Section | None:
    """The section; None for a run whose samples are not in the store."""
    figures = [
        element("figure", drawn, element("figcaption", element("bdi", stage.stage), ": ", _legend(curves)))
        for number, stage in enumerate(source.result.stages)
        for curves in [_curves(source, stage)]
        if curves
        for drawn in [_drawing(stage, curves, f"latency-{number}")]
    ]
    return Section("latency", "Latency", join(*figures)) if figures else None


def _curves(source: Source, stage: StageResult) -> Mapping[str, Sequence[float]]:
    """Return the sorted wall times of each model in seconds, in the order of the legend."""
    if stage.uses != "measure/latency":
        return {}
    content = read_stored(source.store, stage, SAMPLES)
    try:
        samples = read_samples(content) if content else {}
    except ValueError:
        return {}
    walls = {name: sorted(samples[f"{name}.wall"]) for name in CURVES if samples.get(f"{name}.wall")}
    alone = samples.get("alone.wall")
    return walls or ({"model": sorted(alone)} if alone else {})


def _quantile(times: Sequence[float], share: float) -> float:
    return times[min(int(share * len(times)), len(times) - 1)]


def _drawing(stage: StageResult, curves: Mapping[str, Sequence[float]], ident: str) -> Markup:
    low = min(times[0] for times in curves.values())
    high = max(_quantile(times, CUT) for times in curves.values())
    scale = Scale.of([low, high], margin=0.02)
    medians = ", ".join(f"{name} {show(_quantile(times, 0.5), 's')}" for name, times in curves.items())
    return drawing(
        f"Wall times of the inferences of {stage.stage}",
        f"Share of the inferences that took no longer than a time. Medians: {medians}.",
        *_axes(scale),
        *(line for number, times in enumerate(curves.values()) for line in _curve(times, scale, number)),
        ident=ident,
        class_="ecdf",
        width="100%",
        height=HEIGHT,
    )


def _across(scale: Scale, value: float) -> str:
    return percent(SIDE + (0.98 - SIDE) * scale.share(value))


def _down(share: float) -> float:
    return round(TOP + (1 - share) * (HEIGHT - TOP - FOOT), 1)


def _axes(scale: Scale) -> Iterator[Markup]:
    for share in (0.0, 0.5, 1.0):
        at = _down(share)
        yield element("line", x1=percent(SIDE), x2="98%", y1=at, y2=at, class_="grid")
        yield element("text", percent(share), x=percent(SIDE - 0.01), y=at + 4, text_anchor="end", class_="tick")
    for number in range(TICKS + 1):
        value = scale.low + (scale.high - scale.low) * number / TICKS
        anchor = "start" if number == 0 else "end" if number == TICKS else "middle"
        yield element(
            "text", show(value, "s"), x=_across(scale, value), y=HEIGHT - FOOT + 16, text_anchor=anchor, class_="tick"
        )
    yield element("text", "wall time of an inference", x="50%", y=HEIGHT - 3, text_anchor="middle", class_="tick")


def _curve(times: Sequence[float], scale: Scale, number: int) -> Iterator[Markup]:
    points = [(_across(scale, _quantile(times, step / STEPS)), _down(step / STEPS)) for step in range(STEPS + 1)]
    for (x1, y1), (x2, y2) in itertools.pairwise(points):
        yield element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=f"curve curve-{number}")


def _legend(curves: Mapping[str, Sequence[float]]) -> Markup:
    return join(
        *(
            element(
                "span",
                f"{name}: median {show(_quantile(times, 0.5), 's')}, p90 {show(_quantile(times, 0.9), 's')}, "
                f"{len(times)} inferences",
                class_=f"key key-{number}",
            )
            for number, (name, times) in enumerate(curves.items())
        )
    )
