"""Measure a model under concurrent requests of several clients, alone and against a reference and the baseline.

- Without `rate` it is a closed loop: each of `clients` sends its next request after the last answer. This shows how
  much the model can serve.
- With `rate` it is an open loop: so many requests are due per second, whether answers have come or not. The latency of
  a request counts from its due time, so it includes waiting. If the model cannot keep up, requests still due after
  twice the time are dropped, and `served` is below 100 %.

`throughput` is examples answered per second; `p50`, `p90`, `p99`, `mean` and `max` are latencies. Each is the median
over rounds, in which the models alternate. A `p99` needs some hundred requests in a round.

Clients are threads of one process. They share one session, or use `sessions` in turn, like the pool of a server. The
stage has the machine to itself. The result is bound to the host. The artifact holds `load.json`, and `latencies.npz`
with every request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

from orun.core.metrics import Metric
from orun.errors import StageFailed
from orun.stages.cold_start import INPUTS, LEAST
from orun.stages.common_parameters import ModelTarget
from orun.stages.contract import Context, Spec
from orun.stages.params import Doc, Duration, Range, WithUnit
from orun.stages.timing import Batch, IoBinding, Shape, TimedInputs

if TYPE_CHECKING:
    from orun.measure.latency.load import Round, Traffic

LATENCIES = ("p50", "p90", "p99", "mean", "max")
SPEC = Spec(
    inputs=INPUTS,
    output="metrics",
    tools=("onnxruntime|onnxruntime-gpu", "onnx", "numpy"),
    extra="cpu",
    stage_class="measurement",
    exclusive=True,
    preload=("numpy", "onnx", "onnxruntime"),
    baseline=True,
    metrics=("throughput", "served", *LATENCIES),
    units={**dict.fromkeys(LATENCIES, "s"), "throughput": "1/s", "served": "ratio"},
)


@dataclass(frozen=True)
class Params:
    """Parameters of `measure/load`."""

    target: ModelTarget = None
    inputs: TimedInputs = None
    batch: Batch = 1
    shape: Shape = field(default_factory=dict)
    clients: Annotated[int, Doc("Largest number of concurrent requests."), Range(low=1)] = 4
    sessions: Annotated[int, Doc("Sessions that the clients use in turn."), Range(low=1)] = 1
    rate: Annotated[float | None, Doc("Requests per second of an open loop."), Range(low=0.001)] = None
    arrivals: Annotated[
        Literal["poisson", "regular"],
        Doc("Open loop: requests arrive as from independent users, or at equal intervals."),
    ] = "poisson"
    io_binding: IoBinding = False
    warmup: Annotated[Duration, Doc("Requests before the first round of each model."), Range(low=0.001), WithUnit()] = (
        Duration(0.5)
    )
    time: Annotated[Duration, Doc("Duration of a round."), Range(low=0.001)] = Duration(2)
    rounds: Annotated[int, Doc("Rounds of each model."), Range(low=LEAST)] = LEAST


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Send requests to the models; write every latency."""
    import numpy as np

    from orun.measure.latency.load import Traffic, send_requests

    requests = _requests(context, params)
    random = {role: np.random.default_rng([context.seed, place]) for place, role in enumerate(requests)}
    traffic = Traffic(params.clients, params.rate, params.time, regular=params.arrivals == "regular")
    rounds: dict[str, list[Round]] = {role: [] for role in requests}
    for role, calls in requests.items():
        _try(context, role, calls[0])
        send_requests(calls, Traffic(params.clients, None, params.warmup), random[role])
    total = params.rounds * len(requests)
    for number in range(total):
        role = list(requests)[number % len(requests)]
        context.progress(number, total, "rounds")
        rounds[role].append(send_requests(requests[role], traffic, random[role]))
    _write(context, traffic, rounds)
    return _metrics(context, params, rounds)


def _requests(context: Context, params: Params) -> dict[str, list[Callable[[], object]]]:
    """Return, for each model, a request function per client."""
    from orun.core.targets import Target
    from orun.measure.binding import bind_inference
    from orun.measure.session import open_session
    from orun.stages.timing import Sizes, make_timed_feeds

    target = context.target or Target("cpu")
    models = {role: context.model(role) for role in context.inputs}
    fed = make_timed_feeds(context, params.inputs, Sizes(params.batch, params.shape))
    requests: dict[str, list[Callable[[], object]]] = {}
    for role, path in models.items():
        pool = [open_session(path, target) for _ in range(min(params.sessions, params.clients))]
        requests[role] = [
            bind_inference(pool[client % len(pool)], fed[role], bound=params.io_binding)
            for client in range(params.clients)
        ]
    return requests


def _try(context: Context, role: str, call: Callable[[], object]) -> None:
    try:
        call()
    except Exception as error:  # ONNX Runtime's errors share no base class but this
        raise StageFailed(
            context.stage,
            f"the {role} cannot answer a request",
            why=str(error).strip().partition("\n")[0],
            hint="set `shape`, or give `inputs` that fit",
        ) from error


def _metrics(context: Context, params: Params, rounds: Mapping[str, Sequence[Round]]) -> dict[str, Metric]:
    from orun.measure.latency.cold_start import compare_rounds

    served = compare_rounds(rounds, lambda result: result.served, "ratio", "higher")
    if served.value < 1:
        context.log.warning("the model does not keep up: %.1f %% of the requests were answered", 100 * served.value)
    return {
        "throughput": compare_rounds(rounds, lambda result: result.throughput * params.batch, "1/s", "higher"),
        "served": served,
        "p50": compare_rounds(rounds, lambda result: result.quantile(0.5), "s"),
        "p90": compare_rounds(rounds, lambda result: result.quantile(0.9), "s"),
        "p99": compare_rounds(rounds, lambda result: result.quantile(0.99), "s"),
        "mean": compare_rounds(rounds, lambda result: result.mean, "s"),
        "max": compare_rounds(rounds, lambda result: result.latencies[-1], "s"),
    }


def _write(context: Context, traffic: Traffic, rounds_by_role: Mapping[str, Sequence[Round]]) -> None:
    import json

    import numpy as np

    rounds = {
        role: [
            {"requests": len(result.latencies), "answered": result.answered, "seconds": result.seconds}
            for result in results
        ]
        for role, results in rounds_by_role.items()
    }
    text = json.dumps({"clients": traffic.clients, "rate": traffic.rate, "rounds": rounds}, indent=2)
    (context.output / "load.json").write_text(text + "\n", "utf-8")
    arrays = {
        f"{role}/{number}": np.array(result.latencies)
        for role, results in rounds_by_role.items()
        for number, result in enumerate(results)
    }
    np.savez_compressed(context.output / "latencies.npz", **arrays)  # type: ignore[arg-type]  # arrays by name
