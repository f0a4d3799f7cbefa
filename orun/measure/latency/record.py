"""Files of a latency measurement: the launches as JSON, every inference as arrays."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orun.core.serialization import encode
from orun.measure.benchmark_case import MODEL, BenchmarkCase
from orun.measure.latency.cpu_time import Floats, concatenate
from orun.measure.latency.cuda_streams import concatenate_streams
from orun.measure.latency.launch import Launch
from orun.measure.latency.measurement import Measurement
from orun.measure.latency.metrics import METHODS
from orun.text.units import show

FORMAT = 1


def write(folder: Path, measurement: Measurement, cases: Mapping[str, BenchmarkCase]) -> None:
    """Write `latency.json` and `samples.npz` into a folder.

    `samples.npz` has `alone.wall` and `alone.cpu`, seconds of each inference of the model alone, and `alone.launch`,
    its launch, counted from 0; the same for each model in the ABBA blocks, as `<name>.wall` and so on. Of models timed
    on a device's stream it has `<name>.stream.device`, `<name>.stream.host` and `<name>.stream.launch`.
    """
    target = next(iter(cases.values())).target.here  # without the path of its Python
    document = {
        "format": FORMAT,
        "method": measurement.launches[0].method,
        "target": encode(target),
        "inputs": {name: _describe_inputs(case) for name, case in cases.items()},
        "seconds": measurement.seconds,
        "pressure": encode(measurement.pressure),
        "launches": [_build_launch_document(launch) for launch in measurement.launches],
    }
    text = json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n"
    (folder / "latency.json").write_text(text, encoding="utf-8")
    np.savez_compressed(folder / "samples.npz", **_collect_samples(measurement, cases))


def summarize(measurement: Measurement) -> list[str]:
    """Return lines for the log: each comparison, the launches, and how busy the machine was."""
    launches = measurement.launches
    lines = [_format_comparison(measurement, other) for other in measurement.compared]
    text = f"{len(launches)} launches in {show(measurement.seconds, 's')}"
    if disturbed := sum(launch.disturbed for launch in launches):
        text += f", {disturbed} of them disturbed"
    if crowded := sum(launch.crowded for launch in launches):
        text += f", {crowded} on crowded cores"
    waits = [launch.waiting for launch in launches if launch.waiting is not None]
    if waits:
        text += f"; threads waited for a core {show(sum(waits) / len(waits), 'ratio')} of the time"
    if measurement.pressure.cpu is not None:
        text += f"; pressure on the CPUs {show(measurement.pressure.cpu, 'ratio')}"
    if MODEL in launches[0].streamed:
        times = concatenate_streams([launch.streamed[MODEL] for launch in launches])
        device, host = (show(float(np.median(seconds)), "s") for seconds in (times.device, times.host))
        text += f"; on the device's stream {device}, submitted in {host} of CPU time"
    return [*lines, text]


def _format_comparison(measurement: Measurement, other: str) -> str:
    evidence = measurement.weigh_evidence(other)
    ratio, method = evidence.ratio, METHODS[measurement.launches[0].method]
    disturbance = measurement.find_disturbance(other)
    unknown = disturbance and disturbance.total
    interval = "unknown" if unknown else f"{show(ratio.low, 'x')} to {show(ratio.high, 'x')}"
    return f"{method}: {show(ratio.value, 'x')} of the {other}'s (95 % interval {interval}, {evidence.count} launches)"


def _describe_inputs(case: BenchmarkCase) -> dict[str, Any]:
    return {name: {"shape": list(array.shape), "type": str(array.dtype)} for name, array in case.feeds.items()}


def _build_launch_document(launch: Launch) -> dict[str, Any]:
    return {
        "core": launch.core,
        "sessions": encode(launch.sessions),
        "busy": dict(launch.inference_seconds),
        "log_ratios": dict(launch.log_ratios),
        "pairs": {name: list(values) for name, values in launch.pairs.items()},
        "waiting": launch.waiting,
        "disturbed": launch.disturbed,
        "crowded": launch.crowded,
    }


def _collect_samples(measurement: Measurement, names: Iterable[str]) -> dict[str, Any]:
    groups = {"alone": [launch.alone for launch in measurement.launches]}
    groups |= {name: [launch.interleaved[name] for launch in measurement.launches] for name in names}
    arrays: dict[str, Any] = {}
    for name, by_launch in groups.items():
        times = concatenate(by_launch)
        arrays[f"{name}.wall"], arrays[f"{name}.cpu"] = times.wall, times.cpu
        arrays[f"{name}.launch"] = _number_launches([part.wall for part in by_launch])
    for name in measurement.launches[0].streamed:
        streams = [launch.streamed[name] for launch in measurement.launches]
        times_on_stream = concatenate_streams(streams)
        arrays[f"{name}.stream.device"], arrays[f"{name}.stream.host"] = times_on_stream.device, times_on_stream.host
        arrays[f"{name}.stream.launch"] = _number_launches([stream.device for stream in streams])
    return arrays


def _number_launches(times: Sequence[Floats]) -> NDArray[np.int64]:
    """Return the number of the launch for each inference."""
    return np.repeat(np.arange(len(times)), [len(part) for part in times])
