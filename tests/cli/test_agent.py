"""orun agent: what its options say."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from orun.cli.agent import command
from orun.environment.resources import find_available_resources
from orun.text.units import show

HERE = find_available_resources(memory=True)


@pytest.mark.parametrize(
    "item", ["", "cpus", "cpus=", "cpus=0", "cpus=1.5", "memory=4", "memory=much", "gpus=-1", "cores=3"]
)
def test_resources_are_a_list_of_amounts(item: str) -> None:
    assert _error(f"cpus=1,{item}") == (
        f"--resources wants a list such as cpus=4,memory=16GB,gpus=1, not '{item}'\n"
        "  hint: leave out what is lent whole; CUDA_VISIBLE_DEVICES says which GPUs"
    )


def test_more_memory_than_there_is_cannot_be_lent() -> None:
    assert HERE.memory is not None
    assert _error("memory=900TB") == (
        f"--resources memory=900TB is more than this machine has: {show(HERE.memory, 'B')}"
    )


def test_labels_are_names_with_values() -> None:
    result = CliRunner().invoke(command, ["--listen", "unix:///nowhere", "--label", "gpu"], standalone_mode=False)
    assert str(result.exception) == "--label wants NAME=VALUE, not 'gpu'\n  hint: orun agent --label accelerator=T4 ..."


def _error(resources: str) -> str:
    result = CliRunner().invoke(
        command, ["--listen", "unix:///nowhere", "--resources", resources], standalone_mode=False
    )
    return str(result.exception)
