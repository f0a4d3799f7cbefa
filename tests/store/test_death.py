"""A run that dies, at any change that it makes: the next one ends right and repeats nothing that was stored."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.store.support import needs_proc
from tests.store.workload import STAGES, run


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("kill", 1, 20), marks=pytest.mark.slow),
        ("power", 5, 20),
        pytest.param(("kill", 1, 1), marks=pytest.mark.slow),
        pytest.param(("power", 1, 1), marks=pytest.mark.slow),
    ],
    ids=lambda param: f"{param[0]}-every-{param[2]}",
)
def deaths(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    memory = Path("/dev/shm")  # noqa: S108  (waiting for a disk thousands of times would take minutes)
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        command = [sys.executable, "-m", "tests.store.crash", folder, *map(str, request.param)]
        ended = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    result: list[dict[str, Any]] = json.loads(ended.stdout)
    return result


pytestmark = needs_proc


def test_death_is_tried_from_the_first_change_to_the_last(deaths: list[dict[str, Any]]) -> None:
    assert len(deaths) > 200 / (deaths[1]["death"] - deaths[0]["death"])
    assert deaths[0]["built"] == list(STAGES)
    assert deaths[-1]["built"] == []


def test_the_next_run_has_the_digests_of_a_clean_one(deaths: list[dict[str, Any]], tmp_path: Path) -> None:
    clean = run(tmp_path / "store")["digests"]
    assert {death["death"]: death["digests"] for death in deaths if death["digests"] != clean} == {}


def test_what_was_stored_is_not_built_again(deaths: list[dict[str, Any]]) -> None:
    assert [death for death in deaths if set(death["stored"]) & set(death["built"])] == []


def test_nothing_temporary_is_left(deaths: list[dict[str, Any]]) -> None:
    assert [death for death in deaths if death["left"]] == []


def test_death_alone_damages_nothing(deaths: list[dict[str, Any]], request: pytest.FixtureRequest) -> None:
    if "power" in request.node.name:
        pytest.skip("a power cut may damage what was not stored for good: it is put away, as the other tests hold")
    assert [death for death in deaths if death["notices"]] == []
