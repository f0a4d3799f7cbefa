"""Facts about a model that decide what its pipeline looks like."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from orun.core.serialization import Record, decode
from orun.errors import UsageError
from orun.text.suggestions import near

Form = Literal["onnx", "torch", "tensorflow", "sklearn"]
MARK = "orun-model-facts:"
PATIENCE = 600  # seconds for the import of a framework and the reading of a large model


class InputFact(Record, frozen=True):
    """An input of a model.

    Attributes:
        name: as the model has it.
        dtype: NumPy's name of its type.
        shape: sizes, and names of dynamic axes.
        high: its largest value, where a look-up table sets one.
        fill: `mask` or `right-padded` for an attention mask, else `random`.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    high: int | None = None
    fill: str = "random"


class ModelFacts(Record, frozen=True):
    """A model as `orun init` sees it.

    Attributes:
        form: the framework that it is converted from.
        source: the file, folder or `file.py:function`, relative to the pipeline file.
        inputs: what it takes; empty where the converter finds out.
        outputs: names for what it returns; empty where the converter finds out.
        layers: how many of its layers could be quantized, by operator type; known of an ONNX model alone.
        attention: how many attention layers it has; 1 for a folder of transformers, which is not looked into.
        family: the family of `optimize/transformer`, empty when unknown.
        features: columns that a scikit-learn estimator takes.
        needs_trust: whether reading it runs code that is in the file (pickle).
    """

    form: Form
    source: str
    inputs: tuple[InputFact, ...] = ()
    outputs: tuple[str, ...] = ()
    layers: Mapping[str, int] = {}
    attention: int = 0
    family: str = ""
    features: int = 0
    needs_trust: bool = False


def read_model(source: str, folder: Path, inputs: Sequence[str], *, trust: bool) -> ModelFacts:
    """Read a model in a process of its own, which imports the frameworks.

    Args:
        source: a file, a folder, or `file.py:function`, as the command line has it.
        folder: where the pipeline file will be.
        inputs: declared inputs, as `name=dtype[axis,axis]`.
        trust: whether a pickle may be read.

    Raises:
        UsageError: when it cannot be read.
    """
    command = [sys.executable, "-m", "orun.scaffold.inspection", json.dumps([source, str(folder), [*inputs], trust])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"{source} could not be read within {PATIENCE} s") from error
    for line in done.stdout.splitlines():
        if line.startswith(MARK):
            answer = json.loads(line.removeprefix(MARK))
            if "facts" in answer:
                return decode(ModelFacts, answer["facts"])
            raise UsageError(answer["what"], why=answer["why"], hint=answer["hint"])
    last = [line for line in done.stderr.splitlines() if line.strip()][-1:]
    raise UsageError(
        f"{near(source)} could not be read", why="".join(last) or f"its reader exited with {done.returncode}"
    )
