"""Measure a model under concurrent requests of several clients, alone and against a reference and the baseline.

- Without `rate` it is a closed loop: each of `clients` sends its next request after the last answer. This shows how
  much the model can serve.
- With `rate` it is an open loop: so many requests are due per second, whether answers have come or not. The latency of
  a request counts from its due time, so it includes waiting. If the model cannot keep up, requests still due after
  twice the time are dropped, and `served` is below 100 %.

`throughput` is examples answered per second; `p50`, `p90`, `p99`, `mean` and `max` are latencies. Each is the median
over rounds, in which the models alternate. A `p99` needs some hundred requests in a round.

Each round also tells the resources that it took:

- `cpu_utilization`: share of the usable cores that this process kept busy.
- `cpu_energy`: energy of the processor for an example, by the counters of RAPL.
- `gpu_utilization` and `gpu_energy`, on CUDA and TensorRT: as `nvidia-smi` samples them.

Energy is that of whole packages and GPUs, with whatever else runs on them. What cannot be read on a machine is left
out, and a note says why.

Clients are threads of one process. They share one session, or use `sessions` in turn, like the pool of a server.

A served model is driven over the network, by HTTP:

- With a stage of `release/server` at the port `server`, that server runs on loopback, in an environment of its own with
  the packages of its lock. A reference and the baseline run in the same server, in the place of its model.
- With `url` and `served_name`, a server that runs already, here or elsewhere, is driven: any that speaks the Open
  Inference Protocol v2.

Its outputs must first agree with those of the model. `cpu_utilization` is then that of the server's process. Without
`batch`, a request has one row, as most have that a server joins to batches.

The stage has the machine to itself. The result is bound to the host. The artifact holds `load.json`, and
`latencies.npz` with every request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Literal

from orun.core.metrics import ENERGY, HIGHER_SHARE, RATE, SHARE, TIME, Better, Metric, Unit
from orun.stages.cold_start import INPUTS, LEAST
from orun.stages.common_parameters import ModelTarget
from orun.stages.contract import Context, Port, Spec
from orun.stages.params import Doc, Duration, Range, WithUnit
from orun.stages.timing import Batch, IoBinding, Shape, TimedInputs

if TYPE_CHECKING:
    from pathlib import Path

    from orun.measure.latency.load import Round, Traffic
    from orun.measure.resource_usage import Usage
    from orun.stages.measure._driven import Driven, Feed

SERVER = "server"  # the port
SPEC = Spec(
    inputs={**INPUTS, SERVER: Port(("bundle",), "The server to drive, from `release/server`.", optional=True)},
    output="metrics",
    tools=("onnxruntime|onnxruntime-gpu", "onnx", "numpy"),
    extra="cpu",
    stage_class="measurement",
    exclusive=True,
    preload=("numpy", "onnx", "onnxruntime"),
    baseline=True,
    metrics={
        "throughput": RATE,
        "served": HIGHER_SHARE,
        **dict.fromkeys(("p50", "p90", "p99", "mean", "max"), TIME),
        **dict.fromkeys(("cpu_utilization", "gpu_utilization"), SHARE),
        **dict.fromkeys(("cpu_energy", "gpu_energy"), ENERGY),
    },
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
    url: Annotated[str | None, Doc("Address of a server that runs already: `http://host:8080`.")] = None
    served_name: Annotated[str, Doc("Name of the model at `url`.")] = ""
    atol: Annotated[
        float, Doc("Largest allowed absolute error of a served model, in addition to `rtol` times the value."), Range(0)
    ] = 1e-4
    rtol: Annotated[
        float, Doc("Largest allowed relative error of a served model, in addition to `atol`."), Range(0)
    ] = 1e-3
    warmup: Annotated[Duration, Doc("Requests before the first round of each model."), Range(low=0.001), WithUnit()] = (
        Duration(0.5)
    )
    time: Annotated[Duration, Doc("Duration of a round."), Range(low=0.001)] = Duration(2)
    rounds: Annotated[int, Doc("Rounds of each model."), Range(low=LEAST)] = LEAST


@dataclass(frozen=True)
class MeteredRound:
    """A round with the resources that it took."""

    round: Round
    usage: Usage

    def divide_energy(self, joules: float | None, batch: int) -> float | None:
        """Return the energy of an answered example; None if it is not known."""
        return None if joules is None else joules / self.round.answered / batch


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Send requests to the models; write every latency."""
    import numpy as np

    from orun.measure.latency.load import Traffic, send_requests
    from orun.measure.resource_usage import ResourceGauge, describe_missing
    from orun.stages.timing import Sizes, count_examples, make_timed_feeds

    _require_consistent(context, params)
    models = replace(context, inputs={role: path for role, path in context.inputs.items() if role != SERVER})
    feeds = make_timed_feeds(models, params.inputs, Sizes(params.batch, params.shape))
    batch = count_examples(context.model(), feeds["model"], params.batch)
    with ExitStack() as servers:
        driven = _drive(models, params, feeds, context.inputs.get(SERVER), servers)
        random = {role: np.random.default_rng([context.seed, place]) for place, role in enumerate(driven)}
        traffic = Traffic(params.clients, params.rate, params.time, regular=params.arrivals == "regular")
        rounds: dict[str, list[MeteredRound]] = {role: [] for role in driven}
        for role, model in driven.items():
            _try(context, role, model.requests[0])
            send_requests(model.requests, Traffic(params.clients, None, params.warmup), random[role])
        total = params.rounds * len(driven)
        with ResourceGauge(context.model_target, is_local=params.url is None) as gauge:
            for number in range(total):
                role = list(driven)[number % len(driven)]
                context.progress(number, total, "rounds")
                gauge.start(driven[role].process)
                result = send_requests(driven[role].requests, traffic, random[role])
                rounds[role].append(MeteredRound(result, gauge.stop()))
    for sentence in describe_missing(gauge.missing):
        context.note(sentence)
    _write(context, traffic, rounds, gauge.missing)
    results = {role: [metered.round for metered in every] for role, every in rounds.items()}
    return _build_metrics(context, batch, results) | _build_resources(batch, rounds)


def _require_consistent(context: Context, params: Params) -> None:
    """Refuse parameters of one way to run a model beside those of another."""
    if params.url and SERVER in context.inputs:
        raise context.failed("`url` and the port `server` name two servers", hint="leave one out")
    if bool(params.url) != bool(params.served_name):
        raise context.failed("`url` and `served_name` are set together, or neither")
    if (params.url or SERVER in context.inputs) and (params.io_binding or params.sessions > 1):
        name = "io_binding" if params.io_binding else "sessions"
        raise context.failed(
            f"`{name}` is for a model in this process, and a server is to be driven",
            hint=f"leave out `{name}`; the stage of `release/server` has `workers`",
        )


def _drive(
    context: Context, params: Params, feeds: Mapping[str, Feed], server: Path | None, servers: ExitStack
) -> dict[str, Driven]:
    """Return the requests of the clients to each model."""
    from orun.stages.measure._driven import (
        bind_requests,
        connect,
        drive_sessions,
        require_agreement,
        start_servers,
    )

    if params.url:
        served = connect(context, params.url, params.served_name)
    elif server:
        served = start_servers(context, server, servers)
    else:
        return drive_sessions(context, feeds, params.clients, params.sessions, bound=params.io_binding)
    require_agreement(context, feeds, served, params.atol, params.rtol)
    return bind_requests(feeds, served, params.clients, servers)


def _try(context: Context, role: str, call: Callable[[], object]) -> None:
    try:
        call()
    except Exception as error:  # ONNX Runtime's errors share no base class but this
        raise context.failed(
            f"the {role} cannot answer a request",
            why=str(error).strip().partition("\n")[0],
            hint="set `shape`, or give `inputs` that fit",
        ) from error


def _build_metrics(context: Context, batch: int, rounds: Mapping[str, Sequence[Round]]) -> dict[str, Metric]:
    served = _compare(rounds, lambda result: result.served, "ratio", "higher")
    if served.value < 1:
        context.log.warning("the model does not keep up: %.1f %% of the requests were answered", 100 * served.value)
    return {
        "throughput": _compare(rounds, lambda result: result.throughput * batch, "1/s", "higher"),
        "served": served,
        "p50": _compare(rounds, lambda result: result.quantile(0.5), "s"),
        "p90": _compare(rounds, lambda result: result.quantile(0.9), "s"),
        "p99": _compare(rounds, lambda result: result.quantile(0.99), "s"),
        "mean": _compare(rounds, lambda result: result.mean, "s"),
        "max": _compare(rounds, lambda result: result.latencies[-1], "s"),
    }


def _compare(
    rounds: Mapping[str, Sequence[Round]], figure: Callable[[Round], float], unit: Unit, better: Better = "lower"
) -> Metric:
    from orun.measure.latency.rounds import compare_rounds

    return compare_rounds({role: [figure(result) for result in every] for role, every in rounds.items()}, unit, better)


def _build_resources(batch: int, rounds: Mapping[str, Sequence[MeteredRound]]) -> dict[str, Metric]:
    """Return the resources of the rounds; what some round cannot tell is left out."""
    from orun.measure.latency.rounds import compare_rounds

    figures: Mapping[str, tuple[Unit, Better, Callable[[MeteredRound], float | None]]] = {
        "cpu_utilization": ("ratio", "neither", lambda item: item.usage.cpu),
        "gpu_utilization": ("ratio", "neither", lambda item: item.usage.gpu),
        "cpu_energy": ("J", "lower", lambda item: item.divide_energy(item.usage.cpu_energy, batch)),
        "gpu_energy": ("J", "lower", lambda item: item.divide_energy(item.usage.gpu_energy, batch)),
    }
    metrics: dict[str, Metric] = {}
    for name, (unit, better, figure) in figures.items():
        values = {
            role: [value for item in every if (value := figure(item)) is not None] for role, every in rounds.items()
        }
        if all(len(values[role]) == len(every) for role, every in rounds.items()):
            comparable = all(map(all, values.values()))  # a ratio to 0 says nothing
            compared = values if comparable else {"model": values["model"]}
            metrics[name] = compare_rounds(compared, unit, better)
    return metrics


def _write(
    context: Context, traffic: Traffic, metered: Mapping[str, Sequence[MeteredRound]], missing: Mapping[str, str]
) -> None:
    import json

    import numpy as np

    from orun.core.serialization import encode

    rounds = {
        role: [
            {
                "requests": len(item.round.latencies),
                "answered": item.round.answered,
                "seconds": item.round.seconds,
                "resources": encode(item.usage),
            }
            for item in every
        ]
        for role, every in metered.items()
    }
    document = {"clients": traffic.clients, "rate": traffic.rate, "rounds": rounds, "not_readable": dict(missing)}
    text = json.dumps(document, indent=2)
    (context.output / "load.json").write_text(text + "\n", "utf-8")
    arrays = {
        f"{role}/{number}": np.array(item.round.latencies)
        for role, every in metered.items()
        for number, item in enumerate(every)
    }
    np.savez_compressed(context.output / "latencies.npz", **arrays)  # type: ignore[arg-type]  # arrays by name
