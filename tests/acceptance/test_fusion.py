"""The pipelines that fuse a decoder, and an encoder with its decoder."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

PIPELINES = Path(__file__).parents[2] / "pipelines"
SHORT = ("time=0s", "warmup=0s", "max_launches=3", "samples=6")


def run(folder: Path, name: str) -> tuple[int, dict[str, Any]]:
    short = [word for value in SHORT for word in ("--set", f"stages.latency.with.{value}")]
    command = [sys.executable, "-m", "orun", name, "--json", *short]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=580)
    result: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, result


@pytest.mark.parametrize(("name", "attentions", "separate"), [("gpt2", 4, 0), ("t5", 6, 2)])
def test_every_attention_is_fused(tmp_path: Path, name: str, attentions: int, separate: int) -> None:
    folder = tmp_path / "pipelines"
    shutil.copytree(PIPELINES, folder, ignore=shutil.ignore_patterns("__pycache__"))
    code, result = run(folder, f"{name}.yaml")
    assert (code, [stage["outcome"] for stage in result["stages"]]) == (0, ["built"] * 3), result
    assert not [gate for gate in result["verdicts"] if gate["outcome"] != "passed"]
    fuse, latency = result["stages"][1:]
    metrics = {metric: found["value"] for metric, found in fuse["metrics"].items()}
    assert (metrics["attentions"], metrics["attentions_left"]) == (attentions, 0)
    assert metrics["fused.MultiHeadAttention"] == separate
    assert latency["metrics"]["p50"]["value"] > 0
