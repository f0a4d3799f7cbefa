"""Several processes on one store: they share the work, and none of them fails, whatever happens to the others."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from blake3 import blake3

from orun.store import Store
from tests.store.support import DAMAGE, content
from tests.store.workload import STAGES, run
from tests.thin import mostly_slow

TOP = Path(__file__).parents[2]


def start(store: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.store.workload", str(store), "1"]
    return subprocess.Popen(command, cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def make_writable(path: Path) -> None:
    path.chmod(0o600)


def is_whole(root: Path) -> bool:
    """Whether every object has the content that its name says."""
    paths = (root / "objects").glob("*/*")
    return all(path.parent.name + path.name == blake3(path.read_bytes()).hexdigest() for path in paths)


def test_four_processes_on_a_cold_store_build_each_stage_once(tmp_path: Path) -> None:
    clean = run(tmp_path / "clean")["digests"]
    processes = [start(tmp_path / "store") for _ in range(4)]
    ended = [(*process.communicate(), process.returncode) for process in processes]
    assert [(errors, code) for _, errors, code in ended] == [("", 0)] * 4
    reports = [json.loads(output) for output, _, _ in ended]
    assert sorted(name for report in reports for name in report["built"]) == sorted(STAGES)
    assert [report["digests"] for report in reports] == [clean] * 4
    assert [report["notices"] for report in reports] == [[]] * 4
    assert is_whole(tmp_path / "store")
    with Store.open(tmp_path / "store") as store:
        assert len(store.list_runs()) == 4


@pytest.mark.slow
@pytest.mark.parametrize("kills", [4, 20])
def test_processes_that_are_killed_at_any_time_do_not_harm_the_others(tmp_path: Path, kills: int) -> None:
    chance = random.Random(11)
    clean = run(tmp_path / "clean")["digests"]
    processes = [start(tmp_path / "store") for _ in range(4)]
    reports = []
    for _ in range(kills):
        time.sleep(chance.random() * 0.3)
        number = chance.randrange(4)
        processes[number].kill()
        output, errors = processes[number].communicate()
        assert errors == ""
        reports += [json.loads(output)] if output else []
        processes[number] = start(tmp_path / "store")
    for process in processes:
        output, errors = process.communicate()
        assert errors == ""
        reports.append(json.loads(output))
    assert {json.dumps(report["digests"]) for report in reports} == {json.dumps(clean)}
    assert [report["notices"] for report in reports if report["notices"]] == []
    assert is_whole(tmp_path / "store")
    last = run(tmp_path / "store")
    assert (last["built"], last["left"], last["digests"]) == ([], [], clean)


@pytest.mark.parametrize("seed", mostly_slow(range(25), 0))
def test_damage_between_runs_never_reaches_a_result(tmp_path: Path, seed: int) -> None:
    """Files of a store are damaged at random; each run ends with the right result, and the next builds nothing."""
    chance = random.Random(seed)
    root = tmp_path / "store"
    clean = run(root)["digests"]
    for _ in range(4):
        files = [path for path in sorted(root.rglob("*")) if path.is_file() and path.name != "VERSION"]
        for path in chance.sample(files, 3):
            if path.exists() and path.stat().st_size:
                chance.choice([*DAMAGE, Path.unlink, make_writable])(path)
        assert run(root)["digests"] == clean
        for name, expected in STAGES.items():
            assert content(root / "out" / "bert" / name) == expected
        assert is_whole(root)
        again = run(root)
        assert (again["built"], again["digests"], again["notices"], again["left"]) == ([], clean, [], [])
