"""The pipelines that fuse a decoder, with a cache and without, and an encoder with its decoder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.acceptance.support import PIPELINES, copy_pipelines, run_json, shorten

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("name", "attentions", "separate"), [("gpt2", 4, 0), ("t5", 6, 2)])
def test_every_attention_is_fused(tmp_path: Path, name: str, attentions: int, separate: int) -> None:
    code, result = run_json(copy_pipelines(tmp_path), f"{name}.yaml", *shorten("latency"))
    assert (code, [stage["outcome"] for stage in result["stages"]]) == (0, ["built"] * 3), result
    assert not [gate for gate in result["verdicts"] if gate["outcome"] != "passed"]
    fuse, latency = result["stages"][1:]
    metrics = {metric: figures["value"] for metric, figures in fuse["metrics"].items()}
    assert (metrics["attentions"], metrics["attentions_left"]) == (attentions, 0)
    assert metrics["fused.MultiHeadAttention"] == separate
    assert latency["metrics"]["p50"]["value"] > 0


def test_a_decoder_with_its_cache(tmp_path: Path) -> None:
    """Every stage at a past of none and of some; each token that PyTorch generates is judged."""
    for name in ("llama.yaml", "llama.py"):
        shutil.copy(PIPELINES / name, tmp_path)
    code, result = run_json(tmp_path, "llama.yaml", *shorten("prompt", "token"))
    assert (code, [stage["outcome"] for stage in result["stages"]]) == (0, ["built"] * 6), result
    assert [gate["outcome"] for gate in result["verdicts"]] == ["passed"] * 3
    metrics = {stage["stage"]: stage["metrics"] for stage in result["stages"]}
    assert metrics["fuse"]["attentions_left"]["value"] == 0
    assert metrics["int4"]["quantized"]["value"] == 15
    assert metrics["accuracy"]["cosine.mean"]["value"] > 0.98
    assert all(metrics[stage]["p50"]["value"] > 0 for stage in ("prompt", "token"))
