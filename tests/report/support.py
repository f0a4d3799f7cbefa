"""A run as records, for the tests of what is made of it."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from orun.core.metrics import Estimate, Metric, Unit
from orun.core.reason import build_reason
from orun.core.reason_codes import ReasonCode
from orun.core.run_record import Failure, RunResult, StageResult
from orun.core.serialization import replace
from orun.core.source_location import Position
from orun.core.verdict import Verdict
from orun.history.points import Point, Series
from orun.report.console import Console, Detail
from orun.report.terminal import Terminal
from tests.facts import reasons_of

HOUR = 3600.0
NOW = 1_790_000_000.0

EXPORT = StageResult(
    "export", "convert/torch", "cached", reasons_of("up to date"), "e" * 64, "1" * 64, "artifacts/out/bert/export",
    size=90_400_000, seconds=12.1, built_at=NOW - 26 * HOUR,
)  # fmt: skip
INT8 = StageResult(
    "int8", "quantize/dynamic", "built", reasons_of("parameter per_channel: false -> true", "stage code changed"),
    "a" * 64, "2" * 64, "artifacts/out/bert/int8", size=22_900_000, seconds=3.25, built_at=NOW,
    metrics={"size": Metric(22_900_000, "B", "lower"), "nodes": Metric(311)},
)  # fmt: skip
ACCURACY = StageResult(
    "accuracy", "measure/accuracy", "built", reasons_of("input model changed (from int8)"), "b" * 64, "3" * 64,
    "artifacts/out/bert/accuracy", size=1_200, seconds=6.5, built_at=NOW,
    metrics={
        "examples": Metric(312),
        "cosine.mean": Metric(0.9931, "", "higher"),
        "cosine.min": Metric(0.9812, "", "higher"),
        "recall_at_1": Metric(0.9135, "ratio", "higher", "sample", Estimate(0.9135, 0.878, 0.942)),
    },
)  # fmt: skip
LATENCY = StageResult(
    "latency", "measure/latency", "cached", reasons_of("up to date"), "c" * 64, "4" * 64, "artifacts/out/bert/latency",
    size=3_400, seconds=19.0, built_at=NOW - 3.5 * HOUR,
    metrics={
        "p50": Metric(0.00804, "s", "lower", "timing", Estimate(0.00804, 0.00801, 0.00812)),
        "speedup": Metric(2.15, "x", "higher", "timing", Estimate(2.15, 2.11, 2.2)),
    },
)  # fmt: skip
RELEASE = StageResult(
    "release", "release/bundle", "built", reasons_of("input model changed (from int8)"), "d" * 64, "5" * 64,
    "artifacts/out/bert/release", size=23_000_000, seconds=0.112, built_at=NOW,
)  # fmt: skip


def verdict(
    stage: str,
    metric: str,
    rule: str,
    threshold: str,
    line: int,
    measured: Estimate | float | None,
    unit: Unit = "",
) -> Verdict:
    """A passed gate."""
    value, interval = (measured.value, measured) if isinstance(measured, Estimate) else (measured, None)
    place = Position("pipelines/bert.yaml", line, 7)
    finding = reasons_of("it is well within")[0]
    return Verdict(stage, metric, rule, threshold, "passed", False, value, unit, interval, finding, place)


COSINE = verdict("accuracy", "cosine.min", "min", "0.97", 31, 0.9812)
RECALL = verdict("accuracy", "recall_at_1", "max_drop", "1%", 32, Estimate(0.002, -0.004, 0.008), "ratio")
P50 = verdict("latency", "p50", "max_regression", "5%", 37, Estimate(0.012, -0.004, 0.028), "ratio")
SPEEDUP = verdict("latency", "speedup", "min", "1.5", 38, Estimate(2.15, 2.11, 2.2), "x")

PASSED = RunResult(
    run="20260921-141320-1f3c",
    pipeline="bert",
    file="pipelines/bert.yaml",
    exit_code=0,
    seconds=12.34,
    started_at=NOW,
    host={"host": "builder"},
    stages=(EXPORT, INT8, ACCURACY, LATENCY, RELEASE),
    verdicts=(COSINE, RECALL, P50, SPEEDUP),
    folder=Path("artifacts/runs/20260921-141320-1f3c"),
)
SLOWER = replace(
    P50,
    outcome="failed",
    fails=True,
    measured=0.081,
    interval=Estimate(0.081, 0.062, 0.099),
    finding=reasons_of("8.1 % slower than the accepted baseline (6.2 % to 9.9 %), 5% allowed")[0],
)
NO_BASELINE = replace(
    SLOWER,
    outcome="no baseline",
    fails=False,
    measured=None,
    interval=None,
    finding=reasons_of("no baseline yet for `latency`")[0],
)
UNSURE = replace(
    RECALL,
    outcome="undecided",
    measured=0.009,
    interval=Estimate(0.009, -0.003, 0.021),
    finding=reasons_of("the drop is 0.9 % (-0.3 % to 2.1 %), 1% allowed: 2100 more examples would decide it")[0],
)
BLOCKED = StageResult("release", "release/bundle", "blocked", reasons_of("a gate of latency failed"))
GATE_FAILED = replace(
    PASSED,
    exit_code=1,
    stages=(EXPORT, INT8, ACCURACY, LATENCY, BLOCKED),
    verdicts=(COSINE, UNSURE, SLOWER, SPEEDUP),
)


NEEDS = {"int8": ("export",), "accuracy": ("int8", "export"), "latency": ("int8", "export"), "release": ("int8",)}


def linked(result: RunResult) -> RunResult:
    """The run with what its stages need."""
    return replace(result, stages=tuple(replace(stage, needs=NEEDS.get(stage.stage, ())) for stage in result.stages))


def crashed(log: Path) -> RunResult:
    """A run of which a stage died, with the log of its process."""
    failure = Failure(
        "StageCrashed",
        "its process died of signal 11 (SIGSEGV)",
        why="nothing of it was stored",
        hint="orun pipelines/bert.yaml --only int8",
        log=str(log),
    )
    blocked = [
        StageResult(stage.stage, stage.uses, "blocked", reasons_of("int8 failed"))
        for stage in (ACCURACY, LATENCY, RELEASE)
    ]
    int8 = StageResult(
        "int8", "quantize/dynamic", "failed", (build_reason(ReasonCode.NEVER_RUN),), "a" * 64, failure=failure
    )
    return replace(PASSED, exit_code=3, stages=(EXPORT, int8, *blocked), verdicts=())


def matrix(size: int) -> tuple[StageResult, ...]:
    """A stage, and so many that need it."""
    names = [f"int8[per_channel=true,size={number}]" for number in range(size)]
    variants = [StageResult(name, "quantize/dynamic", "cached", needs=("export",)) for name in names]
    return (StageResult("export", "convert/torch", "built"), *variants)


def series(values: list[float]) -> Series:
    """Measurements of the latency, an hour apart."""
    return Series(tuple(
        Point("bert", "latency", "measure/latency", "p50", value, None, None, "s", "lower", "timing", "builder", "m",
              "c" * 64, f"run{number}", NOW + (number - len(values)) * HOUR)
        for number, value in enumerate(values)
    ))  # fmt: skip


STEPPED = [0.008 + 0.00001 * (number % 3) + (0.002 if number >= 8 else 0) for number in range(16)]


def result_lines(result: RunResult, terminal: Terminal, detail: Detail = "normal") -> list[str]:
    """Everything that the console shows of a finished run."""
    stream = StringIO()
    Console(stream, terminal, detail).finish(result)
    return stream.getvalue().removesuffix("\n").split("\n")
