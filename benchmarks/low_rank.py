"""Size, error, accuracy and speed of factorised models: MiniLM, and a CNN on digits, at several budgets.

    python -m benchmarks.low_rank --store FOLDER

Factors are made on calibration examples; error is that of the outputs on a quarter of these. Accuracy is measured on
other examples. Speed is the ratio of median latencies on one thread, measured side by side.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orun
from benchmarks.spent import ROOT, machine, table

SIZES = {"digits": ("50%", "30%"), "minilm": ("85%", "75%")}
METRICS = {"minilm": ("cosine.mean", "recall_at_1"), "digits": ("agreement", "accuracy")}
TEMPLATE = """
name: NAME
targets:
  cpu: {providers: [CPUExecutionProvider], session: {intra_op_num_threads: 1}}
stages:
  export: EXPORT
  simplify: {uses: optimize/simplify, needs: export}
  low-rank:
    uses: optimize/low-rank
    needs: simplify
    matrix: {method: [whitened, plain], size: SIZES}
    with: {method: "${matrix.method}", size: "${matrix.size}", dataset: CALIBRATION, samples: 400}
  accuracy:
    uses: measure/accuracy
    needs: {model: low-rank, reference: simplify}
    with: {dataset: UNSEEN, metrics: METRICS, target: cpu}
  latency:
    uses: measure/latency
    needs: {model: low-rank, reference: simplify}
    with: {target: cpu, shape: SHAPE}
"""
MINILM = {
    "EXPORT": """
    uses: convert/torch
    with:
      model: minilm.py:load
      inputs:
        input_ids: {shape: [batch, sequence], dtype: int64, high: 30521}
        attention_mask: {shape: [batch, sequence], dtype: int64, fill: mask}
        token_type_ids: {shape: [batch, sequence], dtype: int64, high: 1}
      outputs: [embedding]
      exporter: torchscript
      dims: {sequence: [2, 33, 128]}""",
    "CALIBRATION": "docs.py:calibration",
    "UNSEEN": "docs.py:pairs",
    "METRICS": "[cosine, recall_at_1]",
    "SHAPE": "{sequence: 128}",
}
DIGITS = {
    "EXPORT": """
    uses: convert/torch
    with:
      model: digits_torch.py:trained
      inputs: {image: {shape: [batch, 1, 8, 8], low: 0, high: 1}}
      outputs: [logits]
      exporter: torchscript""",
    "CALIBRATION": "digits_torch.py:calibration",
    "UNSEEN": "digits_torch.py:held_out",
    "METRICS": "[agreement, accuracy]",
    "SHAPE": "{batch: 64}",
}


def build(name: str, folder: Path, store: Path) -> Any:
    """Run the pipeline of a model, and return the result."""
    for module in (ROOT / "pipelines").glob("*.py"):
        shutil.copy(module, folder)
    text = TEMPLATE.replace("NAME", name).replace("SIZES", f"[{', '.join(SIZES[name])}]")
    for word, value in (MINILM if name == "minilm" else DIGITS).items():
        text = text.replace(word, value)
    file = folder / f"{name}.yaml"
    file.write_text(text, encoding="utf-8")
    return orun.run(file, store=store)


def rows(name: str, metrics: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Return a row for each factorised model: metrics of its stages by stage id."""
    original = metrics["simplify"]["size"].value
    found = []
    for stage, figures in metrics.items():
        if not stage.startswith("low-rank"):
            continue
        variant = stage.removeprefix("low-rank")
        judged, timed = metrics[f"accuracy{variant}"], metrics[f"latency{variant}"]
        found.append([
            f"{name}{variant}",
            f"{figures['size'].value / original:.1%}",
            f"{figures['error'].value:.1%}",
            *(f"{judged[metric].value:.4f}" for metric in METRICS[name]),
            f"{timed['speedup'].value:.2f}",
        ])  # fmt: skip
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", type=Path, default=ROOT / "artifacts", help="store of the results")
    parser.add_argument("--only", choices=SIZES, help="the only model to factorise")
    options = parser.parse_args(arguments)
    for name in SIZES if options.only is None else (options.only,):
        with tempfile.TemporaryDirectory() as folder:
            result = build(name, Path(folder), options.store.absolute())
        metrics = {stage.stage: stage.metrics for stage in result.stages}
        head = ["model", "size", "error", *METRICS[name], "speed-up"]
        print(machine(), table(head, rows(name, metrics)), sep="\n\n")


if __name__ == "__main__":
    main()
