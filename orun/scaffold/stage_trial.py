"""Trial of a custom stage: run on a tiny model, then built again in another process and compared."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import TYPE_CHECKING

from orun import api
from orun.core.run_record import StageResult
from orun.core.serialization import Record
from orun.environment.env_vars import set_variable
from orun.errors import UsageError
from orun.eventlog import Listener
from orun.fs.os_errors import convert_os_errors, quote
from orun.report.failures import read_log_tail
from orun.stages import registry

if TYPE_CHECKING:
    from orun.runner.reproducibility import Rebuilt
    from orun.stages.kind import Kind

HISTORY = "ORUN_HISTORY"
PREFIX = ".orun-test-"
TINY = "a tiny model: x float32[batch, 8] -> MatMul, Relu -> y float32[batch, 4]"
HELPERS = '''\
"""Inputs of a stage that `orun test` runs; removed when it ends."""

import shutil

from orun import Context, FilePath, stage


@stage(inputs={}, tools=["onnx"])
def tiny_model(context: Context) -> None:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = numpy_helper.from_array(np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4), "weights")
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", size]) for name, size in (("x", 8), ("y", 4))
    ]
    nodes = [helper.make_node("MatMul", ["x", "weights"], ["a"], "product"), helper.make_node("Relu", ["a"], ["y"])]
    graph = helper.make_graph(nodes, "tiny", ends[:1], ends[1:], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, context.result)
'''
COPY = """

@stage(inputs={{}}, output="{kind}")
def {name}(context: Context, *, path: FilePath) -> None:
    source = context.root / path
    if source.is_dir():
        shutil.copytree(source, context.output, dirs_exist_ok=True)
    else:
        shutil.copy(source, context.output)
"""


class Trial(Record, frozen=True):
    """Trial of a custom stage."""

    result: StageResult  # of the first run
    rebuilt: Rebuilt | None = None  # comparison with the second run; None if the first one failed
    hint: str = ""  # how to fix a failure
    log: str = ""  # end of the log of a failure

    @property
    def is_good(self) -> bool:
        """Whether the stage keeps what its declaration promises."""
        return self.rebuilt is not None and self.rebuilt.good


def find_stage(reference: str) -> Kind:
    """Return the declaration of a custom stage, `./file.py:function`.

    Raises:
        UsageError: when there is no such file or function.
        PipelineError: when its declaration is wrong.
    """
    name, _, function = reference.rpartition(":")
    if not registry.FILE_KIND.fullmatch(reference):
        raise UsageError(
            f"'{reference}' is not a custom stage", why="expected file.py:function", hint="orun test ./ops.py:count"
        )
    return registry.find(f"./{Path(name).name}:{function}", Path(name).absolute().parent)


def try_stage(reference: str, inputs: Mapping[str, str], overrides: Mapping[str, str], listener: Listener) -> Trial:
    """Run a custom stage twice in a temporary store.

    An `onnx` input without a path gets a tiny model. The listener hears of the first run.

    Raises:
        UsageError: when an input is missing or not known.
        RunInterrupted: when the user stops the run.
    """
    kind = find_stage(reference)
    folder, stage = Path(reference.rpartition(":")[0]).absolute().parent, derive_id(kind)
    _require_inputs(reference, kind, inputs)
    helpers = HELPERS + "".join(
        COPY.format(kind=port.accepts[0], name=f"copy_{name}")
        for name, port in kind.spec.inputs.items()
        if name in inputs and port.accepts[0] != "onnx"
    )
    with (
        _write_temporary(folder, ".py", helpers) as code,
        _write_temporary(folder, ".yaml", _format_pipeline(kind, code, inputs, folder)) as file,
        TemporaryDirectory(prefix="orun-test-") as store,
        set_variable(HISTORY, None),
    ):
        values = {f"stages.{stage}.with.{name}": value for name, value in overrides.items()}
        run = api.run(api.load(file, values), store=store, on_event=listener)
        failed = next((stage for stage in run.stages if stage.failure), None)
        if failed is not None:
            assert failed.failure  # noqa: S101 - it was chosen by it
            lines = read_log_tail(Path(failed.failure.log))
            log = "" if lines[:1] == [failed.failure.problem] else "\n".join(lines)
            return Trial(failed, hint=failed.failure.advice, log=log)
        result = run[stage]
        (rebuilt,) = api.rebuild(file, set=values, only=[stage], store=store)
        return Trial(result, rebuilt)


def derive_id(kind: Kind) -> str:
    """Return the id of the stage in its trial: the name of its function."""
    return kind.name.rpartition(":")[2].lstrip("_") or "stage"


def _require_inputs(reference: str, kind: Kind, inputs: Mapping[str, str]) -> None:
    for name, path in inputs.items():
        if name not in kind.spec.inputs:
            why = f"its inputs are {', '.join(kind.spec.inputs)}" if kind.spec.inputs else "it takes none"
            raise UsageError(f"{reference} has no input '{name}'", why=why)
        if not Path(path).exists():
            raise UsageError(f"there is no {path}", hint=f"orun test {quote(reference)} --input {name}=PATH")
    for name, port in kind.spec.inputs.items():
        if name not in inputs and port.accepts != ("onnx",):
            raise UsageError(
                f"input '{name}' of {reference} takes {port.accepts[0]}, which cannot be made up",
                hint=f"name a file or a folder: orun test {quote(reference)} --input {name}=PATH",
            )


def _format_pipeline(kind: Kind, code: Path, inputs: Mapping[str, str], folder: Path) -> str:
    """Return a pipeline with the stage and a stage for each of its inputs, as JSON, which is YAML."""
    stages: dict[str, object] = {}
    for name, port in kind.spec.inputs.items():
        uses: dict[str, object] = {"uses": f"./{code.name}:tiny_model"}
        if name in inputs:
            path = os.path.relpath(Path(inputs[name]).absolute(), folder)
            uses = {"uses": f"./{code.name}:copy_{name}", "with": {"path": path}}
            if port.accepts[0] == "onnx":
                uses = {"uses": "convert/onnx", "with": {"path": path}}
        stages[f"input-{name}"] = uses
    stage: dict[str, object] = {"uses": kind.name}
    if stages:
        stage["needs"] = {name: f"input-{name}" for name in kind.spec.inputs}
    return json.dumps({"name": "test", "stages": {**stages, derive_id(kind): stage}}, indent=1)


@contextmanager
def _write_temporary(folder: Path, suffix: str, text: str) -> Iterator[Path]:
    """Make a temporary file next to the stage's code, so that relative paths resolve as in a pipeline there."""
    with ExitStack() as stack:
        with convert_os_errors("write", folder):
            file = stack.enter_context(
                NamedTemporaryFile("w", encoding="utf-8", prefix=PREFIX, suffix=suffix, dir=folder)
            )
            file.write(text)
            file.flush()
        yield Path(file.name)
