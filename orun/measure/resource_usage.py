"""Resources that a stretch of work takes: cores, GPU, energy; or why they cannot be read here.

- Cores: CPU time of a process, this one or a server's, over the time of all cores that it may use.
- Energy of the processor: the counters of RAPL, which Linux shows as files, of whole packages.
- GPU: utilization and power as `nvidia-smi` samples them; energy is the mean power times the time.

What a counter counts includes other processes on the machine. Nothing is subtracted for an idle machine. A figure that
cannot be read is None, never 0.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from types import TracebackType
from typing import IO, Self

from orun.core.targets import GPU_PROVIDERS, Target
from orun.environment.device import find_nvidia_smi_index
from orun.environment.processor import count_usable_cores

POWERCAP = Path("/sys/class/powercap")
PACKAGE_DOMAIN = "package-"  # begins the name of a processor's domain
QUERY = "utilization.gpu,power.draw"
SAMPLE_MILLISECONDS = 100
START_SECONDS = 10.0  # for the first sample
CPU_CLOCK = 2  # with a process's id, Linux's clock of its CPU time: clock_getcpuclockid(3)

CPU_UTILIZATION, CPU_ENERGY = "cpu_utilization", "cpu_energy"
GPU_UTILIZATION, GPU_ENERGY = "gpu_utilization", "gpu_energy"


class Unreadable(Exception):
    """A counter that cannot be read on this machine, with the reason as its text."""


@dataclass(frozen=True)
class Usage:
    """Resources of a stretch of work; None for what cannot be read.

    Attributes:
        cpu: share of the usable cores that the process kept busy.
        cpu_energy: joules of the processor's packages.
        gpu: mean utilization of the GPU, a share.
        gpu_energy: joules of the GPU.
    """

    cpu: float | None = None
    cpu_energy: float | None = None
    gpu: float | None = None
    gpu_energy: float | None = None


class EnergyCounters:
    """RAPL counters of the processor's packages.

    Raises:
        Unreadable: if there is none, or one cannot be read.
    """

    def __init__(self, folder: Path = POWERCAP) -> None:
        domains = sorted(path for path in folder.glob("*-rapl:*") if _read(path / "name").startswith(PACKAGE_DOMAIN))
        if not domains:
            raise Unreadable(f"{folder} has no RAPL counter of a processor package; virtual machines have none")
        self._files = [domain / "energy_uj" for domain in domains]
        self._ranges = [int(_read(domain / "max_energy_range_uj") or 0) for domain in domains]
        self.read()

    def read(self) -> list[int]:
        """Return the count of each package in microjoules."""
        try:
            return [int(file.read_text("ascii")) for file in self._files]
        except PermissionError as error:
            raise Unreadable(f"{error.filename} is for root: chmod a+r on it as root makes it readable") from error
        except (OSError, ValueError) as error:
            raise Unreadable(f"a RAPL counter cannot be read: {error}") from error

    def measure_joules(self, before: Sequence[int], after: Sequence[int]) -> float:
        """Return the energy between two readings; a counter begins anew once it has reached its range."""
        steps = zip(before, after, self._ranges, strict=True)
        return sum(end - start if end >= start else end - start + most for start, end, most in steps) / 1e6


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii").strip()
    except OSError:
        return ""


class GpuSampler:
    """Process of `nvidia-smi` that samples one GPU, from now on until `close`.

    Raises:
        Unreadable: if it does not start, or yields no number.
    """

    def __init__(self, index: str) -> None:
        command = ["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits", f"--id={index}"]
        try:
            self._process = subprocess.Popen(
                [*command, f"--loop-ms={SAMPLE_MILLISECONDS}"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
        except OSError as error:
            raise Unreadable(f"nvidia-smi cannot be started: {error.strerror}") from error
        self._samples: list[tuple[float, float, float]] = []  # time, share, watts
        self._problem = ""
        self._first = threading.Event()
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        self._thread = threading.Thread(target=self._collect, args=(self._process.stdout,), daemon=True)
        self._thread.start()
        self._first.wait(START_SECONDS)
        if not self._samples:
            self.close()
            raise Unreadable(self._problem or f"nvidia-smi yields no sample in {START_SECONDS:g} s")

    def average_between(self, start: float, end: float) -> tuple[float, float] | None:
        """Return mean utilization and mean watts between two times of the monotonic clock; None without a sample."""
        chosen = [(share, watts) for at, share, watts in list(self._samples) if start <= at <= end]
        return (fmean(share for share, _ in chosen), fmean(watts for _, watts in chosen)) if chosen else None

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._thread.join()

    def _collect(self, lines: IO[str]) -> None:
        with lines:
            for line in lines:
                try:
                    percent, watts = map(float, line.split(","))
                except ValueError:
                    self._problem = self._problem or f"nvidia-smi says: {line.strip()}"
                    self._first.set()
                    continue
                self._samples.append((time.monotonic(), percent / 100, watts))
                self._first.set()
        self._problem = self._problem or "nvidia-smi ended at once"
        self._first.set()


@dataclass
class ResourceGauge:
    """Gauge of the resources of a process and of the GPU of a target; a context manager.

    Attributes:
        target: names the GPU, if it has a provider that computes on one.
        powercap: where the counters of RAPL are; `POWERCAP` if None.
        is_local: whether the work is of this machine; of another one nothing can be read.
        missing: why a figure cannot be read here, by its name.
    """

    target: Target
    powercap: Path | None = None
    is_local: bool = True
    missing: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self._energy: EnergyCounters | None = None
        self._gpu: GpuSampler | None = None
        if not self.is_local:
            names = (
                CPU_UTILIZATION,
                CPU_ENERGY,
                *([] if _find_gpu_index(self.target) is None else (GPU_UTILIZATION, GPU_ENERGY)),
            )
            self.missing |= dict.fromkeys(names, "the server may run on another machine")
            return self
        try:
            self._energy = EnergyCounters(self.powercap or POWERCAP)
        except Unreadable as error:
            self.missing[CPU_ENERGY] = str(error)
        if (index := _find_gpu_index(self.target)) is not None:
            try:
                self._gpu = GpuSampler(index)
            except Unreadable as error:
                self.missing |= dict.fromkeys((GPU_UTILIZATION, GPU_ENERGY), str(error))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._gpu:
            self._gpu.close()

    def start(self, process: int | None = None) -> None:
        """Begin a stretch of work of this process, or of another one by its id."""
        self._process = process
        self._joules = self._energy.read() if self._energy else None
        self._cpu, self._wall = self._read_cpu_time(), time.monotonic()

    def stop(self) -> Usage:
        """End the stretch and return what it took."""
        now, cpu = time.monotonic(), self._read_cpu_time()
        seconds = now - self._wall
        energy = (
            self._energy.measure_joules(self._joules, self._energy.read()) if self._energy and self._joules else None
        )
        sampled = self._gpu.average_between(self._wall, now) if self._gpu else None
        if self._gpu and not sampled:
            self.missing |= dict.fromkeys((GPU_UTILIZATION, GPU_ENERGY), f"no sample of nvidia-smi in {seconds:.2g} s")
        share, watts = sampled or (None, None)
        cores = None if cpu is None or self._cpu is None else (cpu - self._cpu) / seconds / count_usable_cores()
        return Usage(cores, energy, share, None if watts is None else watts * seconds)

    def _read_cpu_time(self) -> float | None:
        """Return the CPU seconds of the process; None if they cannot be read."""
        if not self.is_local:
            return None
        if self._process is None:
            return time.process_time()
        try:
            return time.clock_gettime(~self._process << 3 | CPU_CLOCK)
        except (OSError, OverflowError) as error:
            self.missing[CPU_UTILIZATION] = f"the clock of process {self._process} cannot be read: {error}"
            return None


def _find_gpu_index(target: Target) -> str | None:
    """Return the index, for `nvidia-smi`, of the GPU that a target computes on; None if it uses none."""
    provider = next((provider for provider in target.providers if provider.name in GPU_PROVIDERS), None)
    return None if provider is None else find_nvidia_smi_index(provider.options.get("device_id", "0"))


def describe_missing(missing: Mapping[str, str]) -> list[str]:
    """Return a sentence for each reason why figures cannot be read here."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in missing.items():
        by_reason.setdefault(reason, []).append(name)
    return [f"{' and '.join(names)}: not readable here: {reason}" for reason, names in by_reason.items()]
