"""Files of a latency measurement: the launches as JSON, every inference as arrays."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orun.core.serialization import encode
from orun.measure.benchmark_case import Subject
from orun.measure.latency.abba_blocks import MODEL, Launch
from orun.measure.latency.cpu_time import Floats, joined
from orun.measure.latency.cuda_streams import together
from orun.measure.latency.measurement import Measurement
from orun.measure.latency.metrics import METHODS
from orun.text.units import show

FORMAT = 1


def write(folder: Path, measurement: Measurement, subjects: Mapping[str, Subject]) -> None:
    """Leave `latency.json` and `samples.npz` in a folder.

    `samples.npz` has `alone.wall` and `alone.cpu`, seconds of each inference of the model alone, and `alone.launch`,
    the launch that it was in, counted from 0; and the same for each model in the quads, as `<name>.wall` and so on.
    Of models on a device's stream it has `<name>.stream.device`, `<name>.stream.host` and `<name>.stream.launch`.
    """
    first = measurement.launches[0]
    target = next(iter(subjects.values())).target.here  # without a path of this machine
    document = {
        "format": FORMAT,
        "method": first.method,
        "target": encode(target),
        "inputs": {name: _described(subject) for name, subject in subjects.items()},
        "seconds": measurement.seconds,
        "pressure": encode(measurement.pressure),
        "launches": [_launch(one) for one in measurement.launches],
    }
    text = json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n"
    (folder / "latency.json").write_text(text, encoding="utf-8")
    np.savez_compressed(folder / "samples.npz", **_samples(measurement, subjects))


def summary(measurement: Measurement) -> list[str]:
    """Lines for the log: each comparison, and what it took."""
    launches = measurement.launches
    lines = [_compared(measurement, other) for other in measurement.others]
    text = f"{len(launches)} launches in {show(measurement.seconds, 's')}"
    if disturbed := sum(one.disturbed for one in launches):
        text += f", {disturbed} of them disturbed"
    waits = [one.waiting for one in launches if one.waiting is not None]
    if waits:
        text += f"; threads waited for a core {show(sum(waits) / len(waits), 'ratio')} of the time"
    if measurement.pressure.cpu is not None:
        text += f"; pressure on the CPUs {show(measurement.pressure.cpu, 'ratio')}"
    if MODEL in launches[0].streamed:
        times = together([one.streamed[MODEL] for one in launches])
        device, host = (show(float(np.median(one)), "s") for one in (times.device, times.host))
        text += f"; on the device's stream {device}, submitted in {host} of CPU time"
    return [*lines, text]


def _compared(measurement: Measurement, other: str) -> str:
    evidence = measurement.evidence(other)
    ratio, method = evidence.ratio, METHODS[measurement.launches[0].method]
    known = "unknown" if measurement.disturbance else f"{show(ratio.low, 'x')} to {show(ratio.high, 'x')}"
    return f"{method}: {show(ratio.value, 'x')} of the {other}'s (95 % interval {known}, {evidence.count} launches)"


def _described(subject: Subject) -> dict[str, Any]:
    return {name: {"shape": list(array.shape), "type": str(array.dtype)} for name, array in subject.feeds.items()}


def _launch(one: Launch) -> dict[str, Any]:
    return {
        "core": one.core,
        "sessions": encode(one.opened),
        "busy": dict(one.busy),
        "log_ratios": dict(one.ratios),
        "pairs": {name: list(values) for name, values in one.pairs.items()},
        "waiting": one.waiting,
        "disturbed": one.disturbed,
    }


def _samples(measurement: Measurement, names: Iterable[str]) -> dict[str, Any]:
    lots = {"alone": [one.alone for one in measurement.launches]}
    lots |= {name: [one.beside[name] for one in measurement.launches] for name in names}
    arrays: dict[str, Any] = {}
    for name, launches in lots.items():
        times = joined(launches)
        arrays[f"{name}.wall"], arrays[f"{name}.cpu"] = times.wall, times.cpu
        arrays[f"{name}.launch"] = _numbers([times.wall for times in launches])
    for name in measurement.launches[0].streamed:
        lot = [one.streamed[name] for one in measurement.launches]
        streamed = together(lot)
        arrays[f"{name}.stream.device"], arrays[f"{name}.stream.host"] = streamed.device, streamed.host
        arrays[f"{name}.stream.launch"] = _numbers([one.device for one in lot])
    return arrays


def _numbers(times: Sequence[Floats]) -> NDArray[np.int64]:
    """The launch of each inference."""
    return np.repeat(np.arange(len(times)), [len(one) for one in times])
