"""orun machines and orun doctor --on, with machines that are made up."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from pathlib import Path
from time import time

import pytest
from click.testing import CliRunner

from orun.cli import machines as verb
from orun.cli.doctor import command as doctor
from orun.core.events import Notice
from orun.core.machines import Machine
from orun.core.serialization import replace

NOW = 1_000_000.0
GOOD = Machine(
    "bench-t4",
    {"accelerator": "T4", "architecture": "x86_64"},
    cores=8,
    memory=32 << 30,
    gpus=1,
    orun="0123456789abcdef",
    python=platform.python_version(),
    versions={"onnxruntime-gpu": "1.31.1", "torch": "2.13.0"},
    load=0.52,
    free=100 << 30,
    clock=NOW,
)


class Made:
    """A fleet of made-up machines."""

    def __init__(self, *machines: Machine, left_out: Sequence[str] = ()) -> None:
        self._machines = machines
        self._left_out = left_out
        self.closed = False

    def __call__(self, _: str) -> Made:
        return self

    def machines(self) -> tuple[Machine, ...]:
        return self._machines

    def wait(self, _: float) -> list[Notice]:
        return [Notice("warning", text) for text in self._left_out]

    def close(self) -> None:
        self.closed = True


def test_machines_are_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Made(GOOD, left_out=["machine old runs another orun than this one"])
    monkeypatch.setattr("orun.runner.open_fleet.open_fleet", fleet)
    result = CliRunner().invoke(verb.command, ["--on", "ray://head:6379"], env={"COLUMNS": "140"})
    assert result.stderr == "warning: machine old runs another orun than this one\n"
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["machine", "labels", "cores", "memory", "GPUs", "load", "orun", "Python", "onnxruntime", "torch"],
        ["bench-t4", "accelerator=T4,", "architecture=x86_64", "8", "34.4", "GB", "1", "0.5", "01234567",
         platform.python_version(), "1.31.1", "2.13.0"],
    ]  # fmt: skip
    assert fleet.closed


def test_machines_are_a_document(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orun.runner.open_fleet.open_fleet", Made(GOOD))
    result = CliRunner().invoke(verb.command, ["--on", "ray://head:6379", "--json"])
    (machine,) = json.loads(result.stdout)
    assert (machine["id"], machine["labels"]["accelerator"], machine["gpus"]) == ("bench-t4", "T4", 1)


def test_a_fleet_without_machines_says_how_one_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orun.runner.open_fleet.open_fleet", Made())
    result = CliRunner().invoke(verb.command, ["--on", "ray://head:6379"])
    assert result.stderr.splitlines()[-1] == "no machine is here; start an agent on one: orun agent --join head:6379"


@pytest.mark.parametrize(
    ("machine", "problems"),
    [
        (GOOD, []),
        (replace(GOOD, clock=NOW + 90), ["its clock is 1 min 30 s ahead: set it, as by timedatectl"]),
        (replace(GOOD, clock=NOW - 90), ["its clock is 1 min 30 s behind: set it, as by timedatectl"]),
        (replace(GOOD, free=200 << 20), ["210 MB free for its store: orun store gc, there"]),
        (replace(GOOD, versions={}), ["neither ONNX Runtime nor PyTorch is installed there"]),
    ],
)
def test_what_is_wrong_with_a_machine_is_said_with_what_to_do(machine: Machine, problems: list[str]) -> None:
    assert verb.list_problems(machine, NOW) == problems


def test_the_doctor_fails_if_something_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad = replace(GOOD, clock=time()), replace(GOOD, id="old", clock=time(), versions={})
    monkeypatch.setattr("orun.runner.open_fleet.open_fleet", Made(good, bad))
    result = CliRunner().invoke(doctor, ["--on", "ray://head:6379"], standalone_mode=False)
    assert result.return_value == 2
    assert [" ".join(line.split()) for line in result.stdout.splitlines()] == [
        "machine state",
        "bench-t4 OK",
        "old neither ONNX Runtime nor PyTorch is installed there",
    ]


def test_the_doctor_is_content_with_good_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orun.runner.open_fleet.open_fleet", Made(replace(GOOD, clock=time())))
    assert CliRunner().invoke(doctor, ["--on", "ray://head:6379"], standalone_mode=False).return_value == 0


def test_the_doctor_fails_if_a_machine_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    left_out = ["machine old runs another orun than this one"]
    monkeypatch.setattr("orun.runner.open_fleet.open_fleet", Made(replace(GOOD, clock=time()), left_out=left_out))
    result = CliRunner().invoke(doctor, ["--on", "ray://head:6379", "--json"], standalone_mode=False)
    assert (result.return_value, result.stderr) == (2, "warning: machine old runs another orun than this one\n")
    assert json.loads(result.stdout) == {"machines": {"bench-t4": []}, "left_out": left_out}


def test_the_doctor_looks_at_a_fleet_or_at_a_file() -> None:
    result = CliRunner().invoke(doctor, ["words.yaml", "--on", "ray://head:6379"], standalone_mode=False)
    assert str(result.exception) == (
        "--on checks the machines of a fleet, and no file\n  hint: orun doctor --on ray://head:6379"
    )


def test_a_fleet_must_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ORUN_ON", raising=False)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(verb.command, [])
    assert str(result.exception) == "no fleet is named\n  hint: --on ray://head:6379, or ORUN_ON"
