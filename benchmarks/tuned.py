"""Speed of the models that `quantize/tune` chose for MiniLM, against PyTorch and the export.

    orun pipelines/tuned.yaml --store FOLDER
    python -m benchmarks.tuned --store FOLDER

Batch 1, 128 tokens, one thread, CPU time of the whole process: see `benchmarks.envelope`. The least is the median of
the least disturbed block, see `orun.measure.latency.final_timing`. Accuracy is the search's own figure on all examples.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.envelope import TORCH, cpu, made_up_feed, times, torch_models
from benchmarks.spent import ROOT, machine, table
from orun.core.serialization import replace
from orun.core.targets import Provider, Target
from orun.environment import venvs
from orun.measure.latency.cpu_time import Floats
from orun.measure.plugins import CPU
from orun.pipeline import load
from orun.stages._graph.io import load_graph
from orun.stages.quantize.tune import PROPERTY

EXPORT = "plain export"


def chosen(model: Path) -> dict[str, Any]:
    """Return the settings and figures that the search stored in its model."""
    properties = {entry.key: entry.value for entry in load_graph(model).metadata_props}
    settings: dict[str, Any] = json.loads(properties[PROPERTY])["chosen"]
    return settings


def target_of(settings: dict[str, Any], target: Target) -> Target:
    """Return the pipeline's target with the providers that the search chose."""
    providers = tuple(Provider(name, options) for item in settings["providers"] for name, options in item.items())
    here = providers[0].name == CPU
    interpreter = None if here else venvs.choose_interpreter(target.environment)
    return replace(target, providers=providers, environment=None, interpreter=interpreter)


def _spent(blocks: Sequence[Floats]) -> tuple[float, float]:
    """Return the median seconds of an inference over all blocks, and in the least disturbed block."""
    return float(np.median(np.concatenate(blocks))), min(float(np.median(block)) for block in blocks)


def _ratios(before: Sequence[Floats], after: Sequence[Floats]) -> str:
    return " / ".join(f"{old / new:.2f}" for old, new in zip(_spent(before), _spent(after), strict=True))


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", type=Path, default=ROOT / "artifacts", help="where pipelines/tuned.yaml is built")
    parser.add_argument("--rounds", type=int, default=20, help="blocks of inferences of each form")
    options = parser.parse_args(arguments)
    pipeline = load(ROOT / "pipelines" / "tuned.yaml")
    out = options.store / "out" / "tuned"
    tuned = [stage for stage in pipeline.stages if stage.uses == "quantize/tune"]
    forms: dict[str, tuple[Path, Target]] = {EXPORT: (out / "export" / "model.onnx", cpu(1))}
    choices: dict[str, dict[str, Any]] = {}
    for stage in tuned:
        model = out / stage.id / "model.onnx"
        if not model.exists() or stage.target is None:
            parser.error(f"{model} is not there: orun pipelines/tuned.yaml --store {options.store}")
        choices[stage.id] = chosen(model)
        forms[stage.id] = (model, target_of(choices[stage.id], stage.target))
    modules, _ = torch_models(1)
    blocks = times(forms, modules, made_up_feed(), options.rounds)
    rows = []
    for name, each in blocks.items():
        to_torch, to_export = (_ratios(blocks[other], each) for other in (TORCH, EXPORT))
        settings = f"{choices[name]['method']} on {choices[name]['place']}" if name in choices else ""
        accuracy = f"{choices[name]['accuracy']:.5f}" if name in choices else ""
        milliseconds = " / ".join(f"{1000 * seconds:.2f}" for seconds in _spent(each))
        rows.append([name, settings, milliseconds, to_torch, to_export, accuracy])
    head = ["form", "settings", "CPU ms, median / least", "speed-up to PyTorch", "to the export", "cosine, mean"]
    print(machine(), table(head, rows), sep="\n\n")


if __name__ == "__main__":
    main()
