"""`run_stage()`: run a kind in this process with a real context on temporary folders."""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orun.core.metrics import Metric, find_quantity
from orun.core.source_model import SourceModel
from orun.core.targets import Target
from orun.executors.local.returned_metrics import check_metrics
from orun.stages._graph.input_domain import carry_domain
from orun.stages.contract import MODEL, Context
from orun.stages.ensure import check_output
from orun.stages.params import build
from orun.stages.registry import find, import_kind

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray


@dataclass(frozen=True)
class StageRun:
    """Result of a stage: output folder, metrics, log, progress and notes."""

    output: Path
    metrics: Mapping[str, Metric]
    log: str
    progress: tuple[tuple[int, int, str], ...]
    notes: tuple[str, ...]

    @property
    def model(self) -> Path:
        """Path of the resulting ONNX proto."""
        return self.output / MODEL

    @property
    def operators(self) -> list[str]:
        """Operators of the resulting model's nodes, in their order."""
        import onnx

        return [node.op_type for node in onnx.load(self.model, load_external_data=False).graph.node]

    @property
    def interface(self) -> dict[str, list[int | str]]:
        """Axes of the resulting model's inputs and outputs."""
        import onnx

        from tests.stages.models import shapes_of

        graph = onnx.load(self.model, load_external_data=False).graph
        return shapes_of((*graph.input, *graph.output))

    def value(self, metric: str) -> float:
        """Return the value of a metric."""
        return self.metrics[metric].value


def run_stage(  # noqa: PLR0913 - the fields of a Context
    uses: str,
    folder: Path,
    params: Mapping[str, Any] | None = None,
    *,
    inputs: Mapping[str, Path] | None = None,
    root: Path | None = None,
    target: Target | None = None,
    sources: Mapping[str, SourceModel] | None = None,
    seed: int = 0,
    timeout: float | None = None,
    provenance: Path | None = None,
    key: str = "",
) -> StageRun:
    """Run a built-in kind as in its own process: a new working folder, an empty output, unchanged inputs.

    Args:
        uses: the kind (`optimize/simplify`).
        folder: a temporary folder; each call makes a new one in it.
        params: plain values as a validated pipeline has them (seconds, bytes, proportions); defaults may be left out.
        inputs: folder of each connected input port.
        root: the folder that code and path parameters are relative to; `folder` when left out.
        target: the target that a parameter names.
        sources: source models that stand for the models at input ports.
        seed: seed of every random choice.
        timeout: seconds that the stage may run.
        provenance: path of `provenance.json`.
        key: of the result; one of its own when left out.
    """
    module = import_kind(uses)
    work = Path(tempfile.mkdtemp(prefix="stage-", dir=folder))
    output, working_folder = work / "output", work / "work"
    output.mkdir()
    working_folder.mkdir()
    ports = dict(inputs or {})
    before = {port: digest(path) for port, path in ports.items()}
    text, progress = io.StringIO(), list[tuple[int, int, str]]()
    log = logging.Logger(uses)  # noqa: LOG001 - one logger to a run, so that no run hears another
    log.addHandler(logging.StreamHandler(text))
    context = Context(
        stage=uses,
        key=key or work.name,
        inputs=ports,
        output=output,
        root=root or folder,
        target=target,
        sources=sources or {},
        seed=seed,
        timeout=timeout,
        provenance=provenance,
        open_log=lambda: log,
        progress=lambda *step: progress.append(step),
    )
    with contextlib.chdir(working_folder):
        returned = module.run(context, build(module.Params, params or {}))
    assert before == {port: digest(path) for port, path in ports.items()}, f"{uses} wrote into its inputs"
    check_output(uses, module.SPEC, output, ports)
    context.notes.extend(carry_domain(module.SPEC, output, ports))
    metrics = check_metrics(uses, returned, module.SPEC.metrics or {})
    declared = find(uses, context.root).metrics(params or {})
    assert declared is not None
    slices = "|".join((params or {}).get("slices") or ["-"])  # of `accuracy[label=3]` the kind declares `accuracy`
    names = {re.sub(rf"\[({slices})=.*\]$", "", name) for name in metrics}
    assert names <= set(declared), f"{uses} yields metrics that it does not declare"
    for name, metric in metrics.items():
        quantity = find_quantity(module.SPEC.metrics, name)
        assert quantity.least is None or not metric.value < quantity.least, f"{uses} declares a least {name}"
    return StageRun(output, metrics, text.getvalue(), tuple(progress), tuple(context.notes))


def make_context(folder: Path, **fields: Any) -> Context:
    """A stage without inputs, whose project and result are `folder`, except for these fields."""
    plain: dict[str, Any] = {
        "stage": "stage",
        "inputs": {},
        "output": folder,
        "root": folder,
        "target": None,
        "seed": 0,
        "timeout": None,
        "provenance": None,
        "open_log": lambda: logging.getLogger("test"),
        "progress": lambda *_: None,
    }
    return Context(**plain | fields)


def answers(model: Path | bytes, feed: Mapping[str, Any]) -> list[NDArray[Any]]:
    """Outputs of a model, in a file or in memory, on the CPU."""
    from onnxruntime import InferenceSession

    values: list[NDArray[Any]] = InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, dict(feed))
    return values


def artifact(folder: Path, model: onnx.ModelProto) -> Path:
    """Write the model to a new `onnx` artifact in `folder`, for `inputs` of `run_stage`."""
    import onnx

    result = Path(tempfile.mkdtemp(prefix="artifact-", dir=folder))
    onnx.save(model, result / MODEL)
    return result


def digest(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file below a folder, by its relative path."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
