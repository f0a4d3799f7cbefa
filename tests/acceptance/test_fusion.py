"""The pipelines that fuse a decoder, with a cache and without, and an encoder with its decoder."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

PIPELINES = Path(__file__).parents[2] / "pipelines"
SHORT = ("time=0s", "warmup=0s", "max_launches=3", "samples=6")


def run(folder: Path, name: str, timed: Sequence[str] = ("latency",)) -> tuple[int, dict[str, Any]]:
    short = [word for stage in timed for value in SHORT for word in ("--set", f"stages.{stage}.with.{value}")]
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


def test_a_decoder_with_its_cache(tmp_path: Path) -> None:
    """Every stage at a past of none and of some; each token that PyTorch generates is judged."""
    folder = tmp_path / "pipelines"
    folder.mkdir()
    for name in ("llama.yaml", "llama.py"):
        shutil.copy(PIPELINES / name, folder)
    code, result = run(folder, "llama.yaml", ("prompt", "token"))
    assert (code, [stage["outcome"] for stage in result["stages"]]) == (0, ["built"] * 6), result
    assert [gate["outcome"] for gate in result["verdicts"]] == ["passed"] * 3
    found = {stage["stage"]: stage["metrics"] for stage in result["stages"]}
    assert found["fuse"]["attentions_left"]["value"] == 0
    assert found["int4"]["quantized"]["value"] == 15
    assert found["accuracy"]["cosine.mean"]["value"] > 0.98
    assert all(found[stage]["p50"]["value"] > 0 for stage in ("prompt", "token"))
