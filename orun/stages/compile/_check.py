"""Check of a compiled model in new processes: it answers as the uncompiled model, and nothing is compiled again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from orun.core.metrics import Metric
from orun.core.serialization import replace
from orun.errors import OrunError
from orun.measure.engines import Engine
from orun.measure.isolated_run import IsolatedRun, run_isolated
from orun.measure.latency.rounds import compare_rounds
from orun.measure.plugins import OPENVINO
from orun.stages._graph.agreement import check
from orun.stages._graph.differences import Tolerance
from orun.stages._graph.feeds import Case
from orun.stages._graph.io import load_graph
from orun.stages._graph.leniency import Agreement
from orun.stages._graph.limits import build_limits
from orun.stages.cold_start import LEAST
from orun.stages.compile._compiling import PLUG_IN, list_file_states
from orun.stages.contract import Context

# onnxruntime-openvino 1.22 to 1.24.1 looks for the weights of a blob of the CPU in a file `.bin` of the working folder,
# then removes the blob and compiles the model again, in every process.
RECOMPILE_HINTS = {OPENVINO: f"run the model as it is; {PLUG_IN}"}


def load_back(
    context: Context, engine: Engine, tries: Sequence[Case], launches: int, tolerance: Tolerance
) -> dict[str, Metric | float]:
    """Compare the compiled model with the uncompiled one, each loaded in new processes in turn.

    Raises:
        StageFailed: when it cannot be loaded, is compiled anew, or disagrees.
    """
    target = replace(context.model_target, fallback="allow")
    before = _list_compiled_files(context, engine)
    loads: dict[str, list[float]] = {"compiled": [], "uncompiled": []}
    runs: dict[str, IsolatedRun] = {}
    for number in range(launches):
        for role, model in (("uncompiled", context.model()), ("compiled", context.result)):
            context.progress(number, launches, f"loads of the {role} model")
            try:
                runs[role] = run_isolated(model, target, [case.feed for case in tries])
            except OrunError as error:
                raise context.failed(f"the {role} model cannot be loaded back", why=str(error)) from error
            loads[role].append(runs[role].load)
    if (after := _list_compiled_files(context, engine)) != before:
        new = sorted(after.items() - before.items())
        raise context.failed(
            f"{engine.provider} compiled the model anew when it was loaded back",
            why=f"it wrote {', '.join(name for name, _ in new)}",
            hint=RECOMPILE_HINTS.get(engine.provider, ""),
        )
    subgraphs = runs["compiled"].subgraphs
    return {
        "size": sum(size for size, *_ in before.values()),
        "load": _load_metric(model=loads["compiled"], reference=loads["uncompiled"]),
        "load_uncompiled": _load_metric(model=loads["uncompiled"]),
        "max_abs_error": _compare(context, tries, runs, tolerance),
        "compiled": sum(part.provider == engine.provider for part in subgraphs),
        "left": sum(len(part.nodes) for part in subgraphs if part.provider != engine.provider),
    }


def _list_compiled_files(context: Context, engine: Engine) -> Mapping[str, tuple[int, ...]]:
    """Return the sizes of the output's files; for a cache also inode and time, as it may be rewritten at equal size."""
    states = list_file_states(context.output)
    return states if engine.form == "cache" else {name: (size,) for name, (size, *_) in states.items()}


def _load_metric(**seconds: Sequence[float]) -> Metric:
    """Return the median, with its interval and comparison where there are enough launches to bound it."""
    if len(seconds["model"]) < LEAST:
        return Metric(median(seconds["model"]), "s", "lower", "timing")
    return compare_rounds(seconds, "s", noun="loads")


def _compare(context: Context, tries: Sequence[Case], runs: Mapping[str, IsolatedRun], tolerance: Tolerance) -> float:
    """Compare the answers within what the uncompiled model can promise; return the largest error."""
    names = [output.name for output in load_graph(context.model()).graph.output]
    hint = "raise `atol` or `rtol` if the provider calculates in a smaller type"
    agreement = Agreement("the compiled model", "the uncompiled model", names, tolerance, hint)
    limits = build_limits(context, context.model(), names, context.target)
    compiled = iter(runs["compiled"].outputs)
    return check(context, agreement, tries, runs["uncompiled"].outputs, lambda _: next(compiled), limits)
