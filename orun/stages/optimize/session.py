"""Find the session settings with which a model is fastest on a target, and store them beside it.

The search varies what the target leaves open: threads, parallel execution of operators, the level of graph
optimizations (with it the layout of convolutions), the memory arena and pattern, spinning, how threads share work, and
XNNPACK where the build has it. On a GPU it varies the level of graph optimizations alone and, for CUDA, channels last.
Options that the target sets stay as they are.

Candidates are timed side by side with the default settings, in fresh processes, by the engine of `measure/latency`.
Those that are not faster are dropped early. The best one is measured once more, in launches that chose nothing. The
default stays unless the 95 % interval of that measurement shows that the settings are faster.

The model's bytes stay the same. `session.json` lies beside `model.onnx`, and sessions take it wherever the target has
the same providers: in `measure/*`, `check/*` and releases. Options that a target sets itself win. Models that later
stages make have other bytes and no settings, except by `release/metadata`: put this stage last.

The settings are for inferences one after another on a machine that is otherwise idle. The result is bound to the host.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from orun.core.metrics import COUNT, LOWER, SIZE, SPEEDUP, Metric
from orun.stages.contract import Context, Port, Spec
from orun.stages.params import Doc, Duration, Range, TargetName, WithUnit
from orun.stages.timing import Batch, IoBinding, Shape, TimedInputs

if TYPE_CHECKING:
    from orun.core.targets import Target
    from orun.stages.optimize._session.candidates import Candidate
    from orun.stages.optimize._session.search import Search

SPEC = Spec(
    inputs={"model": Port(("onnx",), "The model to find settings for.")},
    tools=("onnxruntime|onnxruntime-gpu", "onnx", "numpy"),
    extra="cpu",
    stage_class="measurement",
    exclusive=True,
    out_of_process=True,
    preload=("numpy", "onnx", "onnxruntime"),
    metrics={"speedup": SPEEDUP, "tried": COUNT, "settings": COUNT, "size": SIZE, "nodes": LOWER},
)

UNCHANGED = Metric(1.0, "x", "higher", "timing")  # speed-up of the target's own settings


@dataclass(frozen=True)
class Params:
    """Parameters of `optimize/session`."""

    target: Annotated[TargetName | None, Doc("Target to find settings for; the CPU when left out.")] = None
    time: Annotated[
        Duration,
        Doc("Time for the search; the last measurement takes some 20 s more."),
        Range(low=1),
        WithUnit(),
    ] = Duration(120)
    inputs: TimedInputs = None
    batch: Batch = 1
    shape: Shape = field(default_factory=dict)
    io_binding: IoBinding = False


def run(context: Context, params: Params) -> Mapping[str, Metric | float]:
    """Search; write the model as it is, and the settings beside it."""
    from orun.environment.processor import count_usable_cores, read_cpu
    from orun.measure.plugins import list_available
    from orun.measure.session_settings import FILE_NAME, SessionSettings, read_settings, write_settings
    from orun.stages._graph.io import weigh
    from orun.stages.optimize._session.candidates import list_candidates

    target = context.model_target
    before = context.model().parent
    shutil.copytree(
        before, context.output, copy_function=shutil.copyfile, dirs_exist_ok=True,
        ignore=shutil.ignore_patterns(FILE_NAME),
    )  # fmt: skip
    search = _search(context, params, target)
    proposal = search.propose(list_candidates(target, count_usable_cores(), list_available()))
    chosen, speedup = _judge(context, search, proposal)
    own = SessionSettings(target.providers, chosen.providers or target.providers, chosen.session, read_cpu()["cpu"])
    kept = [settings for settings in read_settings(before) if settings.searched != target.providers]
    write_settings(context.output, (*kept, own))
    return {
        "speedup": speedup,
        "tried": sum(bool(track.launches) for track in search.tracks),
        "settings": len(chosen.changes),
        **weigh(context.result),
    }


def _search(context: Context, params: Params, target: Target) -> Search:
    from orun.measure.benchmark_case import BenchmarkCase
    from orun.stages.optimize._session.search import Search
    from orun.stages.timing import Sizes, make_timed_feeds

    feed = make_timed_feeds(context, params.inputs, Sizes(params.batch, params.shape))["model"]
    default = BenchmarkCase(context.result, target, feed, params.io_binding)
    return Search(default, time.monotonic() + params.time, context.seed, context.log, context.progress)


def _judge(context: Context, search: Search, proposal: Candidate) -> tuple[Candidate, Metric]:
    """Return the settings that are shown to be faster in new launches, and by how much; else the default."""
    from orun.stages.optimize._session.candidates import DEFAULT
    from orun.stages.optimize._session.search import REFERENCE
    from orun.text.units import show_interval

    name = search.default.target.name
    if proposal == DEFAULT:
        missing, tried = sum(not track.judged for track in search.tracks), len(search.tracks)
        hint = f"; {missing} of {tried} were not judged: raise `time`, or use a quieter machine" if missing else ""
        context.note(f"no session settings are shown to be faster on {name} than its own{hint}")
        return DEFAULT, UNCHANGED
    confirmed = search.confirm(proposal)
    ratio = confirmed.weigh_evidence(REFERENCE).invert().ratio
    disturbance = confirmed.find_disturbance(REFERENCE)
    unknown = bool(disturbance and disturbance.total)
    if unknown or ratio.low <= 1:
        interval = "unknown" if unknown else show_interval(ratio, "x")
        context.note(
            f"{proposal.title} looked faster on {name}, and new launches do not show it (95 % interval {interval}):"
            " the settings of the target stay"
        )
        return DEFAULT, UNCHANGED
    context.note(
        f"fastest session on {name}: {proposal.title}; {ratio.value:.2f}x ({show_interval(ratio, 'x')}) as fast"
    )
    return proposal, Metric(ratio.value, "x", "higher", "timing", ratio)
