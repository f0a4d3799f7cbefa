"""A transformer on a real GPU, from PyTorch to a bundle, with every stage that takes a target; skipped without one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import orun

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="no GPU")]

MODEL = """
import torch
from transformers import BertConfig, BertModel

class Encoder(torch.nn.Module):
    def __init__(self, bert):
        super().__init__()
        self.bert = bert

    def forward(self, input_ids, attention_mask):
        return self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

def load():
    torch.manual_seed(7)
    config = BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536,
                        vocab_size=1000, attn_implementation="eager")
    return Encoder(BertModel(config, add_pooling_layer=False))
"""
PIPELINE = """
name: cuda
targets:
  gpu: {providers: [CUDAExecutionProvider: {use_tf32: false}, CPUExecutionProvider], fallback: warn}
  cpu: {providers: [CPUExecutionProvider]}
stages:
  export:
    uses: convert/torch
    with:
      model: encoder.py:load
      inputs:
        input_ids: {shape: [batch, sequence], dtype: int64, high: 999}
        attention_mask: {shape: [batch, sequence], dtype: int64, fill: mask}
      outputs: [hidden]
      exporter: torchscript
      dims: {sequence: [2, 33]}
  fuse: {uses: optimize/transformer, needs: export, with: {expect: {Attention: 6}}}
  half: {uses: optimize/float16, needs: fuse}
  bfloat: {uses: optimize/float16, needs: export, with: {to: bfloat16, atol: 0.1, rtol: 0.1}}
  coverage:
    uses: check/coverage
    needs: half
    with: {target: gpu}
    gate: {coverage: {min: 100%}, fallback: {max: 0}}
  exact:
    uses: measure/accuracy
    needs: {model: export, reference: export}
    with: &cosine {target: gpu, reference_target: cpu, metrics: [cosine]}
    gate: {cosine.min: {min: 0.99999}}
  accuracy:
    uses: measure/accuracy
    needs: {model: half, reference: export}
    with: *cosine
    gate: {cosine.min: {min: 0.999}}
  bfloat_accuracy:
    uses: measure/accuracy
    needs: {model: bfloat, reference: export}
    with: *cosine
    gate: {cosine.min: {min: 0.99}}
  latency:
    uses: measure/latency
    needs: {model: half, reference: export}
    with: {target: gpu, io_binding: true, device_time: true, batch: 8, shape: {sequence: 128}, time: 10s}
    gate: {speedup: {min: 1.1}, device: {max: 100ms}, p50: {max: 100ms}}
  beside_cpu:
    uses: measure/latency
    needs: {model: half, reference: export}
    with: {target: gpu, reference_target: cpu, batch: 8, shape: {sequence: 128}, time: 10s}
    gate: {speedup: {min: 1.1}}
  memory: {uses: measure/memory, needs: {model: half, reference: export}, with: {target: gpu}}
  load: {uses: measure/load, needs: {model: half, reference: export}, with: {target: gpu, time: 500ms}}
  profile: {uses: measure/profile, needs: {model: half, reference: export}, with: {target: gpu}}
  session: {uses: optimize/session, needs: half, with: {target: gpu, time: 10s}}
  card: {uses: release/card, needs: session}
  release: {uses: release/bundle, needs: {model: session, card: card}}
"""
METRICS = {
    "latency": {"device", "host", "p50", "speedup"},
    "memory": {"gpu", "peak"},
    "load": {"gpu_utilization", "gpu_energy", "throughput"},
}


def test_every_stage_that_takes_a_target_runs_on_the_gpu(tmp_path: Path) -> None:
    (tmp_path / "encoder.py").write_text(MODEL, "utf-8")
    (tmp_path / "p.yaml").write_text(PIPELINE, "utf-8")
    result = orun.run(tmp_path / "p.yaml", store=tmp_path / "store")
    assert {verdict.outcome for verdict in result.verdicts} == {"passed"}, result.verdicts
    assert result.exit_code == 0, [stage.failure for stage in result.stages]
    for stage, names in METRICS.items():
        assert names <= result[stage].metrics.keys()
    assert "onnxruntime.preload_dlls()" in (Path(result["card"].out) / "README.md").read_text("utf-8")
    again = orun.run(tmp_path / "p.yaml", store=tmp_path / "store")
    assert {stage.outcome for stage in again.stages} == {"cached"}
