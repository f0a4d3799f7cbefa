"""Pipelines with a planted fault each, in one project with one store."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import onnx
import pytest

import orun
from orun.blame import accuracy
from orun.blame.blame import blame, find_requests
from orun.blame.diagnosis import Diagnosis
from orun.core.events import Event, StageStarted
from tests.diagnosis.planted import detour, layers

PATIENT = 1e6  # seconds: the machine may be slow
PARTS = Path(__file__).with_name("parts")
ACCURACY = """
  accuracy:
    uses: measure/accuracy
    needs: {{model: {model}, reference: import}}
    with: {{dataset: data.py:rows, metrics: [cosine]}}
    gate: {{cosine.min: {{min: 0.97}}}}
"""
TOP = """
targets:
  one: {providers: [CPUExecutionProvider], session: {intra_op_num_threads: 1}}
stages:
"""
PIPELINES = {
    "layer": f"""{TOP}
  import: {{uses: convert/onnx, with: {{path: layers.onnx}}}}
  simplify: {{uses: optimize/simplify, needs: import}}
  int8: {{uses: quantize/dynamic, needs: simplify}}
{ACCURACY.format(model="int8")}""",
    "many": f"""{TOP}
  import: {{uses: convert/onnx, with: {{path: layers.onnx}}}}
  simplify: {{uses: optimize/simplify, needs: import}}
  noted: {{uses: optimize/python, needs: simplify, with: {{function: faults.py:note}}}}
  same: {{uses: optimize/python, needs: noted, with: {{function: faults.py:leave_alone}}}}
  int8: {{uses: quantize/dynamic, needs: same}}
{ACCURACY.format(model="int8").replace("rows", "many_rows")}""",
    "fusion": f"""{TOP}
  import: {{uses: convert/onnx, with: {{path: layers.onnx}}}}
  fuse: {{uses: optimize/python, needs: import, with: {{function: faults.py:fuse_wrongly, check: false}}}}
  noted: {{uses: optimize/python, needs: fuse, with: {{function: faults.py:note}}}}
{ACCURACY.format(model="noted")}""",
    "slow": f"""{TOP}
  import: {{uses: convert/onnx, with: {{path: plain.onnx}}}}
  edit: {{uses: optimize/python, needs: import, with: {{function: faults.py:make_slow}}}}
  latency:
    uses: measure/latency
    needs: {{model: edit, reference: import}}
    with: {{target: one, time: 1s, samples: 6}}
    gate: {{speedup: {{min: 0.9}}}}
""",
    "accepted": f"""{TOP}
  import: {{uses: convert/onnx, with: {{path: plain.onnx}}}}
  edit: {{uses: optimize/python, needs: import, with: {{function: faults.py:leave_alone}}}}
  latency:
    uses: measure/latency
    needs: {{model: edit}}
    with: {{target: one, time: 1s, samples: 6}}
    gate: {{p50: {{max_regression: 20%}}}}
""",
}


@dataclass
class Planted:
    """The project; `started` are the stages that ran for the last diagnosis."""

    folder: Path
    started: list[str] = field(default_factory=list)

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def diagnose(self, name: str, seconds: float = PATIENT, values: Mapping[str, str] | None = None) -> Diagnosis:
        """Run a pipeline, and look into its one gate that failed."""
        pipeline = orun.load(self.folder / f"{name}.yaml", values)
        result = orun.run(pipeline, store=self.store)
        (question,) = find_requests(pipeline, result)
        self.started.clear()
        return blame(question, seconds, self.store, self._hear)

    def _hear(self, event: Event) -> None:
        if isinstance(event, StageStarted):
            self.started.append(event.stage)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planted]:
    """The project; variants are not timed, as where that fails: fewer launches than the least are none."""
    folder = tmp_path_factory.mktemp("planted")
    for part in PARTS.iterdir():
        shutil.copy(part, folder)
    onnx.save(layers(), folder / "layers.onnx")
    onnx.save(detour()[0], folder / "plain.onnx")
    for name, text in PIPELINES.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accuracy, "TIMING", {"max_launches": 2})
        yield Planted(folder)
