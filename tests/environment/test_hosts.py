"""Identity of the machine of a figure."""

from __future__ import annotations

import pytest

from orun.environment.hosts import format_machine, is_same_machine, name_device, select_hardware, select_software

FORGE = {
    "host": "forge",
    "architecture": "x86_64",
    "cpu": "EPYC 9554P",
    "cpu flags": "0a1b2c3d",
    "cores": "64",
    "governor": "performance",
    "maximum clock": "3750000",
    "gpu name": "NVIDIA H100",
    "gpu driver_version": "580.65",
}


@pytest.mark.parametrize("part", FORGE)
def test_a_machine_is_another_when_a_part_of_it_is(part: str) -> None:
    without = {name: value for name, value in FORGE.items() if name != part}
    assert not is_same_machine(FORGE, {**FORGE, part: "other"})
    assert not is_same_machine(FORGE, without)
    assert not is_same_machine(without, FORGE)


def test_software_makes_no_other_machine() -> None:
    assert is_same_machine(FORGE, {**FORGE, "runtime": "onnxruntime 1.31.1", "python": "3.11"})


def test_facts_of_a_host_are_of_its_hardware_or_its_software() -> None:
    host = {**FORGE, "runtime": "onnxruntime 1.31.1", "python": "3.11", "system": "linux"}
    on_it = {"gpu driver_version": "580.65", "runtime": "onnxruntime 1.31.1", "python": "3.11"}
    assert (select_software(host), select_hardware(host)) == (
        on_it,
        {name: host[name] for name in host if name not in on_it},
    )


def test_a_machine_is_called_by_its_host_and_processor() -> None:
    assert format_machine(FORGE) == "forge, EPYC 9554P"
    assert format_machine({}) == "unknown"
    assert (name_device(FORGE), name_device({"cpu": "EPYC"}), name_device({})) == ("NVIDIA H100", "EPYC", "")
