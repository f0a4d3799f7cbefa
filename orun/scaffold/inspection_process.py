"""Inspection of models and datasets in a process of its own, which imports the frameworks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from orun.core.activity import report
from orun.core.serialization import decode, encode
from orun.errors import MissingPackages, UsageError
from orun.scaffold.data_text import Declaration
from orun.scaffold.label_facts import LabelFacts
from orun.scaffold.model_facts import InputsUnknown, ModelFacts
from orun.scaffold.paths import make_relative
from orun.scaffold.request import LabelKind
from orun.text.suggestions import show_path

MARK = "orun-facts:"
TIMEOUT = 600  # seconds for the import of a framework and the reading of a large model


def read_model(source: str, folder: Path, inputs: Sequence[str] = (), *, trust: bool = False) -> ModelFacts:
    """Read a model.

    Args:
        source: a file, a folder, or `file.py:function`, as the command line has it.
        folder: where the pipeline file will be.
        inputs: declared inputs, as `name=dtype[axis,axis]`.
        trust: whether a pickle may be read.

    Raises:
        UsageError: when it cannot be read.
    """
    request = {"source": source, "folder": str(folder), "inputs": [*inputs], "trust": trust}
    return decode(ModelFacts, _answer(source, request))


def declare_data(data: str, folder: Path, facts: ModelFacts) -> Declaration:
    """Return how a pipeline file declares a dataset for a model.

    Args:
        data: a file, a folder, or `file.py:function`, as the command line has it; may be empty.
        folder: where the pipeline file will be.
        facts: the model.

    Raises:
        UsageError: when the dataset cannot be read, or it is not clear which column the model takes.
    """
    if not data:
        return ""
    file = data.rpartition(":")[0] if ".py:" in data else data
    if not Path(file).exists():
        raise UsageError(f"there is no {file}", hint="name a file, a folder of images, or file.py:function")
    if file != data:
        return make_relative(folder, data)
    declaration: Declaration = _answer(data, {"source": data, "folder": str(folder), "facts": encode(facts)})
    return declaration


def search_labels(data: str, folder: Path, facts: ModelFacts, declaration: Declaration) -> LabelFacts:
    """Return what may be the labels of a dataset whose declaration names none.

    Args:
        data: a file or a folder of images, from here.
        folder: where the pipeline file will be.
        facts: the model, with its graph.
        declaration: how the pipeline file declares the dataset.

    Raises:
        UsageError: when the dataset cannot be read.
    """
    request = {"source": data, "folder": str(folder), "facts": encode(facts), "declaration": declaration}
    return decode(LabelFacts, _answer(data, request))


def read_label_kind(data: str, column: str, inputs: Sequence[str], scores: int = 0) -> LabelKind:
    """Return what the labels of a dataset are; empty if it has none.

    Args:
        data: a file, or `file.py:function`, from here.
        column: the column of a file that holds them.
        inputs: names of the model's inputs, which a function must return.
        scores: number of scores of an example, if it is known: so many integers beyond 0 and 1 are no classes.

    Raises:
        UsageError: when the dataset cannot be read, or lacks an input.
    """
    request = {"source": data, "folder": "", "labels": column, "inputs": [*inputs], "scores": scores}
    kind: LabelKind = _answer(data, request)
    return kind


def _answer(source: str, request: Mapping[str, Any]) -> Any:
    """Return the answer of the process; raise the error that it met."""
    report(f"reading {show_path(source)}")
    command = [sys.executable, "-m", "orun.scaffold.inspection"]
    try:
        done = subprocess.run(
            command,
            input=json.dumps(request),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"{source} could not be read within {TIMEOUT} s") from error
    for line in done.stdout.splitlines():
        if line.startswith(MARK):
            answer = json.loads(line.removeprefix(MARK))
            if "answer" in answer:
                return answer["answer"]
            if "parameters" in answer:
                raise InputsUnknown(**answer)
            if "packages" in answer:
                raise MissingPackages(**answer)
            raise UsageError(**answer)
    stderr = [line for line in done.stderr.splitlines() if line.strip()]
    why = "".join(stderr[-1:]) or f"its reader exited with {done.returncode}"
    raise UsageError(f"{show_path(source)} could not be read", why=why)
