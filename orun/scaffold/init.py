"""The public function `orun.init`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from orun.api import choose_listener
from orun.eventlog import Listener
from orun.fs.os_errors import quote
from orun.fs.output_file import OutputFile
from orun.scaffold.create import create, declare_examples, require_supported
from orun.scaffold.goal import build_gates, check_goal
from orun.scaffold.inspection_process import declare_data, read_model
from orun.scaffold.paths import choose_file, require_free
from orun.scaffold.pipeline_text import format_pipeline
from orun.scaffold.request import Request
from orun.scaffold.targets import find_target
from orun.text.api_arguments import PathLike, as_list


def init(  # noqa: PLR0913 - the options of the command line
    model: PathLike,
    output: PathLike | None = None,
    *,
    goal: str = "",
    data: str = "",
    target: str = "cpu",
    inputs: str | Sequence[str] = (),
    trust: bool = False,
    store: PathLike | None = None,
    on_event: Listener | None = None,
) -> str:
    """Write a pipeline for a model, as `orun init` does, and return its text.

    Args:
        model: an .onnx file, a folder of transformers, a .pt2, .pt or .pth file, a SavedModel, a Keras or TFLite file,
            a .joblib or .pkl file of a scikit-learn estimator, a .json, .ubj, .txt or .cbm file of trees, or
            `file.py:function`.
        output: the pipeline file, which must not exist yet. The pipeline is built once, so that its gates have
            thresholds measured on this machine. When None, nothing is built or written, and the text has only the
            gates of the goal.
        goal: what the release must reach, such as `size<25MB, p50<10ms, cosine>0.99`.
        data: your own examples: `file.py:function`, a file, or a folder of images. Made-up examples when empty.
        target: execution provider, such as `cpu`, `cuda` or `openvino`.
        inputs: `NAME=DTYPE[AXES]` for each input that the file of the model does not describe; a single input may be a
            text.
        trust: unpickle a scikit-learn file, which runs the code in it.
        store: the store's folder; see `locate_default_store`.
        on_event: as for `run`.

    Raises:
        OSError: when a file cannot be written.
        StageError: when the model cannot be converted or measured. The file is left to be edited.
        UsageError: when an option is wrong, the model cannot be read, or the output exists.
    """
    name = os.fspath(model)
    file = Path(output) if output else choose_file(name)
    if output:
        require_free(file, f"orun {quote(file)}")
    conditions, wanted = check_goal(goal, data), find_target(target)
    facts = read_model(name, file.parent, as_list("inputs", inputs), trust=trust)
    request = Request(facts, wanted, declare_data(data, file.parent, facts), conditions)
    if output is None:
        return format_pipeline(file, declare_examples(file, request), build_gates(conditions))
    require_supported(file, request)
    file.parent.mkdir(parents=True, exist_ok=True)
    create(file, request, Path(store) if store else None, _write, on_event or choose_listener())
    return file.read_text(encoding="utf-8")


def _write(path: Path, text: str) -> None:
    with OutputFile(path) as file:
        file.write(text.encode())
