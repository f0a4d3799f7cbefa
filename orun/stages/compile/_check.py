"""A compiled model loaded back in new processes: it answers as the uncompiled one, and nothing is compiled again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from orun.core.metrics import Metric
from orun.core.serialization import replace
from orun.core.targets import Target
from orun.errors import OrunError, StageFailed
from orun.measure.engines import Engine
from orun.measure.isolated_run import IsolatedRun, RunRequest, run_isolated
from orun.measure.latency.cold_start import Reading, compare_rounds
from orun.measure.plugins import OPENVINO
from orun.stages._graph.agreement import Agreement, check
from orun.stages._graph.differences import Tolerance
from orun.stages._graph.feeds import Case
from orun.stages._graph.io import load_graph
from orun.stages._graph.limits import limits_of
from orun.stages.cold_start import LEAST
from orun.stages.compile._compiling import PLUG_IN, stored
from orun.stages.contract import Context

# onnxruntime-openvino 1.22 to 1.24.1 looks for the weights of a blob of the CPU in a file `.bin` of the working folder,
# then removes the blob and compiles the model again, in every process.
ANEW = {OPENVINO: f"run the model as it is; {PLUG_IN}"}


def loaded_back(
    context: Context, engine: Engine, tries: Sequence[Case], launches: int, tolerance: Tolerance
) -> dict[str, Metric]:
    """Compare the compiled model with the one that it was made of, in new processes in turn.

    Raises:
        StageFailed: when it cannot be loaded, is compiled anew, or disagrees.
    """
    target = replace(context.target or Target("cpu"), fallback="allow")
    before = _kept(context, engine)
    loads: dict[str, list[float]] = {"compiled": [], "uncompiled": []}
    runs: dict[str, IsolatedRun] = {}
    for number in range(launches):
        for role, model in (("uncompiled", context.model()), ("compiled", context.result)):
            context.progress(number, launches, f"load the {role} model")
            runs[role] = _run(context, role, RunRequest(model, target), tries)
            loads[role].append(runs[role].session.load)
    if (after := _kept(context, engine)) != before:
        new = sorted(after.items() - before.items())
        raise StageFailed(
            context.stage,
            f"{engine.provider} compiled the model anew when it was loaded back",
            why=f"it wrote {', '.join(name for name, _ in new)}",
            hint=ANEW.get(engine.provider, ""),
        )
    subgraphs = runs["compiled"].session.subgraphs
    return {
        "size": Metric(sum(size for size, *_ in before.values()), "B", "lower"),
        "load": _loads(model=loads["compiled"], reference=loads["uncompiled"]),
        "load_uncompiled": _loads(model=loads["uncompiled"]),
        "max_abs_error": _compare(context, tries, runs, tolerance),
        "compiled": Metric(sum(one.provider == engine.provider for one in subgraphs), better="lower"),
        "left": Metric(sum(len(one.nodes) for one in subgraphs if one.provider != engine.provider), better="lower"),
    }


def _kept(context: Context, engine: Engine) -> Mapping[str, tuple[int, ...]]:
    """Sizes of the files of a compiled model, and whether they are the same: a cache may be written anew, as large."""
    found = stored(context.output)
    return found if engine.form == "cache" else {name: (size,) for name, (size, *_) in found.items()}


def _loads(**seconds: Sequence[float]) -> Metric:
    """The median with its interval, and against the other model; too few launches bound nothing."""
    if len(seconds["model"]) < LEAST:
        return Metric(median(seconds["model"]), "s", "lower", "timing")
    readings = {role: [Reading(load, 0.0, 0, 0, 0) for load in loads] for role, loads in seconds.items()}
    return compare_rounds(readings, lambda reading: reading.load, "s")


def _run(context: Context, role: str, request: RunRequest, tries: Sequence[Case]) -> IsolatedRun:
    try:
        return run_isolated(request, [case.feed for case in tries])
    except OrunError as error:
        raise StageFailed(context.stage, f"the {role} model cannot be loaded back", why=error.why) from error


def _compare(context: Context, tries: Sequence[Case], runs: Mapping[str, IsolatedRun], tolerance: Tolerance) -> Metric:
    """Compare the answers of both models within what the uncompiled model can promise; return the largest error."""
    names = [output.name for output in load_graph(context.model()).graph.output]
    hint = "raise `atol` or `rtol` if the provider calculates in a smaller type"
    agreement = Agreement("the compiled model", "the uncompiled model", names, tolerance, hint)
    limits = limits_of(context, context.model(), names, context.target)
    compiled = iter(runs["compiled"].outputs)
    return check(context, agreement, tries, runs["uncompiled"].outputs, lambda _: next(compiled), limits)
