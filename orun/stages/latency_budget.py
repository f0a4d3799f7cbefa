"""Parameters of the kinds that measure latency: how long, how exactly, with how many samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from orun.measure.latency.sequential_test import FINEST
from orun.stages.params import Doc, Duration, Range, Ratio

if TYPE_CHECKING:
    from orun.measure.latency.measurement import Budget

MeasuringTime = Annotated[
    Duration | None,
    Doc(
        "Time after which no further launch begins; three times as long while too few launches are undisturbed. Waiting"
        " for a core does not count, up to three times as long in all. By default 20 s, more for a `resolution` below"
        " 5 %, and at least eight launches while the answer is open (sixteen if these are likely to decide it)."
    ),
    Range(low=0),
]
Resolution = Annotated[
    Ratio,
    Doc("Slow-down to tell from none, best that of `max_regression`; a smaller one takes longer."),
    Range(low=FINEST),
]
Samples = Annotated[
    int | None,
    Doc(
        "Wall times of the model alone, which may take `time` once more. By default as many as gates on quantiles"
        " need: 139 for p90, 292 for p95, 1522 for p99; 36 without such a gate."
    ),
    Range(low=6),
]

FEW_SAMPLES = 36  # enough to bound p90 with 95 % confidence
ALONE_SHARE = 0.2  # of the time, for the default number of samples
# MLPerf's LoadGen requires z^2 p (1 - p) / margin^2 queries for a quantile p (Reddi et al. 2020, "MLPerf Inference
# Benchmark"), with a margin of a twentieth of the tail at 99 %. These numbers are for half of the tail at 95 %.
SAMPLES = {"p90": 139, "p95": 292, "p99": 1522}
ENOUGH_SECONDS = 20.0  # for a resolution of 5 % or coarser
ENOUGH_RESOLUTION = 0.05
ENOUGH_LAUNCHES = 8  # of a slow model, whose time may be used up by the first launch
WARMUP = 0.05
LAUNCHES = (3, 30)


def make_budget(
    time: float | None,
    resolution: float,
    samples: int | None,
    warmup: float = WARMUP,
    launches: tuple[int, int] = LAUNCHES,
) -> Budget:
    """Return the budget of a measurement; a smaller `resolution` needs more launches and so more time.

    Args:
        time: seconds after which no further launch begins; None for the default.
        resolution: slow-down to tell from none.
        samples: wall times of the model alone; None for the default.
        warmup: seconds of inference before the first sample of a session.
        launches: the fewest and the most.
    """
    from orun.measure.latency.measurement import Budget

    seconds = ENOUGH_SECONDS * max(ENOUGH_RESOLUTION / resolution, 1) if time is None else time
    return Budget(
        time=seconds,
        resolution=resolution,
        launches=launches,
        samples=samples or FEW_SAMPLES,
        warmup=warmup,
        alone=seconds * (1.0 if samples else ALONE_SHARE),
        enough=ENOUGH_LAUNCHES if time is None else 0,
    )
