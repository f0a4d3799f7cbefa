"""Resources of a stretch of work: counters of made-up machines, and what is said where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orun.core.targets import Provider, Target
from orun.environment.processor import count_usable_cores
from orun.measure.resource_usage import EnergyCounters, ResourceGauge, Unreadable, Usage, describe_missing

CUDA = Target("gpu", (Provider("CUDAExecutionProvider", {"device_id": "1"}),))


def package(folder: Path, number: int, count: int, most: int = 1000, name: str = "package") -> Path:
    domain = folder / f"intel-rapl:{number}"
    domain.mkdir(parents=True)
    (domain / "name").write_text(f"{name}-{number}\n")
    (domain / "max_energy_range_uj").write_text(f"{most}\n")
    (domain / "energy_uj").write_text(f"{count}\n")
    return domain / "energy_uj"


def sampler(folder: Path, lines: str) -> None:
    """Put a program into a folder that answers as `nvidia-smi` does, ten times a second."""
    folder.mkdir()
    program = folder / "nvidia-smi"
    program.write_text(f'#!/bin/sh\necho "$@" > {folder}/asked\nwhile :; do echo "{lines}"; sleep 0.02; done\n')
    program.chmod(0o755)


def test_energy_of_packages_whose_counters_begin_anew(tmp_path: Path) -> None:
    first, second = package(tmp_path, 0, 100), package(tmp_path, 1, 900)
    package(tmp_path, 2, 5, name="psys")
    counters = EnergyCounters(tmp_path)
    before = counters.read()
    first.write_text("350")
    second.write_text("50")
    assert before == [100, 900]
    assert counters.measure_joules(before, counters.read()) == pytest.approx((250 + 150) / 1e6)


def test_counters_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(Unreadable) as caught:
        EnergyCounters(tmp_path)
    assert str(caught.value) == f"{tmp_path} has no RAPL counter of a processor package; virtual machines have none"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_counters_of_root(tmp_path: Path) -> None:
    file = package(tmp_path, 0, 100)
    file.chmod(0)
    with pytest.raises(Unreadable, match="is for root: chmod a\\+r"):
        EnergyCounters(tmp_path)


def test_work_of_this_process(tmp_path: Path) -> None:
    file = package(tmp_path, 0, 100)
    with ResourceGauge(Target("cpu"), tmp_path) as gauge:
        gauge.start()
        end = time.process_time() + 0.1
        while time.process_time() < end:
            pass
        file.write_text("400")
        usage = gauge.stop()
    assert usage.cpu is not None
    assert 0 < usage.cpu <= 1.05 / count_usable_cores() + 0.5
    assert usage.cpu_energy == pytest.approx(300e-6)
    assert (usage.gpu, usage.gpu_energy, gauge.missing) == (None, None, {})


def test_work_of_another_process(tmp_path: Path) -> None:
    package(tmp_path, 0, 100)
    with (
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process,
        ResourceGauge(Target("cpu"), tmp_path) as gauge,
    ):
        gauge.start(process.pid)
        time.sleep(0.1)
        usage = gauge.stop()
        process.kill()
    assert usage.cpu
    with ResourceGauge(Target("cpu"), tmp_path) as gauge:
        gauge.start(process.pid)
        assert gauge.stop().cpu is None
    assert gauge.missing == {
        "cpu_utilization": f"the clock of process {process.pid} cannot be read: [Errno 22] Invalid argument"
    }


def test_work_elsewhere(tmp_path: Path) -> None:
    with ResourceGauge(Target("cpu"), tmp_path, is_local=False) as gauge:
        gauge.start()
        assert gauge.stop() == Usage()
    assert describe_missing(gauge.missing) == [
        "cpu_utilization and cpu_energy: not readable here: the server may run on another machine"
    ]


def test_a_gpu_is_sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sampler(tmp_path / "bin", "40, 250.0")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-7")
    with ResourceGauge(CUDA, tmp_path) as gauge:
        gauge.start()
        time.sleep(0.1)
        usage = gauge.stop()
    assert usage.gpu == pytest.approx(0.4)
    assert usage.gpu_energy is not None
    assert usage.gpu_energy >= 0.1 * 250
    assert "--id=GPU-7" in (tmp_path / "bin" / "asked").read_text()


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("[N/A], 250.0", "nvidia-smi says: [N/A], 250.0"),
        ("No devices were found", "nvidia-smi says: No devices were found"),
    ],
)
def test_a_gpu_that_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str, reason: str) -> None:
    sampler(tmp_path / "bin", lines)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    package(tmp_path, 0, 1)
    with ResourceGauge(CUDA, tmp_path) as gauge:
        gauge.start()
        usage = gauge.stop()
    assert (usage.gpu, usage.gpu_energy) == (None, None)
    assert describe_missing(gauge.missing) == [f"gpu_utilization and gpu_energy: not readable here: {reason}"]


def test_a_machine_without_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    package(tmp_path, 0, 1)
    with ResourceGauge(CUDA, tmp_path) as gauge:
        pass
    assert describe_missing(gauge.missing) == [
        "gpu_utilization and gpu_energy: not readable here: nvidia-smi cannot be started: No such file or directory"
    ]
