"""Inspection of a model, run as a program so that the frameworks are imported in a process of its own."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from orun.core.serialization import decode, encode
from orun.errors import MissingPackages, OrunError, PipelineError, UsageError
from orun.fs.os_errors import quote
from orun.pipeline.axes import NAMELESS
from orun.scaffold.inspection_process import MARK
from orun.scaffold.model_facts import InputFact, InputsUnknown, ModelFacts, with_values
from orun.scaffold.paths import make_relative
from orun.scaffold.request import LabelKind
from orun.stages.common_parameters import DType
from orun.text.suggestions import suggest

if TYPE_CHECKING:
    from orun.measure.dataset import Dataset

FRAMEWORKS = {  # distribution of each module that reads models
    "catboost": "catboost",
    "joblib": "scikit-learn",
    "lightgbm": "lightgbm",
    "onnx": "onnx",
    "sklearn": "scikit-learn",
    "torch": "torch",
    "transformers": "transformers",
    "xgboost": "xgboost",
}
CODE = re.compile(r".+\.py:\w+")
INPUT = re.compile(r"(?P<name>[^=\[\]\s]+)=(?P<dtype>\w+)\[(?P<shape>[^\]]*)\]")
LETTER = re.compile(r"[^\W\d]")
KERAS_WEIGHTS = ".weights.h5"
TENSORFLOW = (".keras", ".h5", ".hdf5", ".tflite", ".pb")
PICKLES = (".joblib", ".pkl", ".pickle")
TREES = (".json", ".ubj", ".txt", ".cbm")
SHOWN = 5  # files of a folder
WEIGHTS = (".safetensors", ".bin", ".ckpt", ".npz", ".gguf")
SUFFIXES = (".onnx", ".pt2", ".pt", ".pth", ".py", *TENSORFLOW, *PICKLES, *TREES, *WEIGHTS)
HUB = re.compile(r"(?:https://huggingface\.co/)?(?P<name>\w[\w.-]*(?:/[\w.-]+)?)(?:/tree/.*)?/?")
FORMS = (
    ".onnx, .pt2, .pt, .pth, .keras, .h5, .tflite, .pb, .joblib, .pkl, .json, .ubj, .txt or .cbm of trees, "
    "a SavedModel, a folder of transformers, or file.py:function"
)


def main(request: str) -> int:
    """Print what a model or a dataset is, or what is wrong with it, as one marked line of JSON."""
    question = json.loads(request)
    source, folder = question["source"], Path(question["folder"])
    try:
        if "labels" in question:
            kind = _read_label_kind(source, question["labels"], question["inputs"], question["scores"])
            answer: dict[str, Any] = {"answer": kind}
        elif "declaration" in question:
            from orun.scaffold.label_search import search_labels

            known = decode(ModelFacts, question["facts"])
            answer = {"answer": encode(search_labels(source, folder, known, question["declaration"]))}
        elif "facts" in question:
            from orun.scaffold.data_declaration import declare, require_readable

            known = decode(ModelFacts, question["facts"])
            declaration = declare(source, folder, known)
            require_readable(declaration, folder, known)
            answer = {"answer": declaration}
        else:
            facts = inspect_model(source, folder, parse_inputs(question["inputs"]), question["trust"])
            answer = {"answer": encode(facts)}
    except MissingPackages as error:
        answer = {"problem": error.problem, "why": error.why, "packages": [*error.packages]}
    except PipelineError as error:
        problem = error.problems[0]
        answer = {"problem": f"{problem.position}: {problem.message}", "why": problem.source.strip(), "hint": ""}
    except OrunError as error:
        answer = {"problem": error.problem, "why": error.why, "hint": error.hint}
        if isinstance(error, InputsUnknown):
            answer["parameters"] = error.parameters
    except Exception as error:  # noqa: BLE001 - whatever a framework or the user's function runs into
        answer = _build_failure(source, error, "" if "facts" in question else _suggest_look(source))
    sys.stdout.write(f"\n{MARK}{json.dumps(answer)}\n")
    return 0


def _read_label_kind(source: str, column: str, inputs: Sequence[str], scores: int) -> LabelKind:
    """Return what the labels of a dataset are: the column of a file, or those that a function returns."""
    import numpy as np

    from orun.stages._data.files import read_columns

    labels = _call(source, inputs).labels if CODE.fullmatch(source) else read_columns(Path(source), source)[column]
    if labels is None:
        return ""
    values = np.asarray(labels)
    is_forecast = values.dtype.kind in "iu" and values.shape[1:] == (scores,) and not {*values.flat} <= {0, 1}
    if values.dtype.kind == "f" or is_forecast:
        return "numbers"
    holds_text = values.dtype.kind in "UO" and all(isinstance(value, str) for value in values.flat)
    return "classes" if values.ndim == 1 and (values.dtype.kind in "iub" or holds_text) else "other"


def _call(source: str, inputs: Sequence[str]) -> Dataset:
    """Return the dataset of a function; refuse one without the inputs of the model."""
    from orun.measure.dataset import require_dataset
    from orun.measure.dataset_origin import Origin
    from orun.stages.code import load_function

    path, _, function = source.rpartition(":")
    dataset = require_dataset(load_function(Path(path).parent, f"{Path(path).name}:{function}", ())(), source)
    Origin(source).require_inputs(inputs, dataset.inputs)
    return dataset


def _build_failure(source: str, error: Exception, hint: str) -> dict[str, Any]:
    """Return the answer about an error that a framework or the user's function raised."""
    module = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if module in FRAMEWORKS:
        package = FRAMEWORKS[module]
        return {"problem": f"reading {source} needs {package}, which is not installed", "packages": [package]}
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    why = f"{type(error).__name__}: {lines[0] if lines else 'without a message'}"
    return {"problem": f"{source} cannot be read", "why": why, "hint": hint}


def _suggest_look(source: str) -> str:
    """Return how to see more of an error that a framework or the user's function raised."""
    if not CODE.fullmatch(source):
        return "export it anew, or write a function that returns the model: orun init file.py:function"
    path, _, function = source.rpartition(":")
    call = f"import runpy; runpy.run_path({json.dumps(path)})[{json.dumps(function)}]()"
    return f"to see where: python -c {quote(call)}"


def parse_inputs(texts: Sequence[str]) -> tuple[InputFact, ...]:
    """Parse inputs as the command line declares them: `input_ids=int64[batch,sequence]`."""
    inputs: list[InputFact] = []
    known = get_args(DType)
    for text in texts:
        matched = INPUT.fullmatch(text.replace(" ", ""))
        if matched is None:
            raise UsageError(
                f"{text!r} is not an input",
                why="expected name=dtype[axis,axis]",
                hint="--input 'image=float32[batch,3,224,224]'",
            )
        if matched["dtype"] not in known:
            problem = f"the input {matched['name']!r} has an unknown type {matched['dtype']!r}"
            if matched["dtype"] == "bfloat16":
                hint = "declare float32, and `return module.float()` in the function of the model"
                raise UsageError(problem, why="NumPy, which holds the inputs, lacks it", hint=hint)
            raise UsageError(problem, why=suggest(matched["dtype"], known))
        axes = matched["shape"].split(",") if matched["shape"] else []
        inputs.append(
            InputFact(matched["name"], matched["dtype"], tuple(_parse_axis(matched["name"], axis) for axis in axes))
        )
    return tuple(map(with_values, inputs))


def _parse_axis(name: str, axis: str) -> int | str:
    """Return the size or the name of an axis; other tools' placeholders of a dynamic axis, `?` and -1, are neither."""
    if axis.isdecimal():
        return int(axis)
    if axis in NAMELESS or not LETTER.search(axis):
        raise UsageError(
            f"the input {name!r} has the axis {axis!r}, which is no size and no name",
            why="an axis of any size has a name; axes of one name have one size",
            hint="--input 'image=float32[batch,3,224,224]'",
        )
    return axis


def inspect_model(source: str, folder: Path, inputs: tuple[InputFact, ...], trust: bool) -> ModelFacts:
    """Return the facts about a model, by the kind of file, folder or function that it is.

    Raises:
        UsageError: when orun does not convert it.
    """
    from orun.scaffold.function_inspection import inspect_function
    from orun.scaffold.onnx_inspection import inspect_onnx
    from orun.scaffold.sklearn_inspection import inspect_pickle
    from orun.scaffold.torch_inspection import inspect_program, inspect_torchscript

    name = make_relative(folder, source)
    if CODE.fullmatch(source):
        return inspect_function(source, name, inputs)
    path = Path(source)
    if not path.exists():
        raise _build_missing_error(source)
    suffix = path.suffix.lower()
    if path.is_dir():
        return _inspect_folder(name, path, inputs)
    if suffix == ".onnx":
        return inspect_onnx(name, path)
    if suffix in TENSORFLOW and not path.name.lower().endswith(KERAS_WEIGHTS):
        return ModelFacts("tensorflow", name, inputs)
    if suffix == ".pt2":
        return inspect_program(name, path)
    if suffix in (".pt", ".pth"):
        return inspect_torchscript(name, path, inputs)
    if suffix in PICKLES:
        return inspect_pickle(name, path, trust=trust)
    if suffix in TREES:
        return _inspect_trees(name, path)
    raise _build_unknown_error(path)


def _inspect_trees(name: str, path: Path) -> ModelFacts:
    from orun.scaffold.model_files import read_object
    from orun.scaffold.sklearn_inspection import inspect_estimator
    from orun.stages._sklearn.trees import READERS

    suffix = path.suffix.lower()
    stated = read_object(path) if suffix == ".json" else {"learner": None}
    if {"input_model", "passes"} & {*stated}:
        raise UsageError(
            f"{path} is a workflow of Olive, not a model",
            hint="name its model: orun init MODEL; docs/migrate/olive.md says which stages its passes are",
        )
    if "learner" not in stated:
        why = "it is no JSON with a `learner`"
        raise UsageError(f"{path} is not a model of XGBoost", why=why, hint=f"booster.save_model({str(path)!r})")
    return inspect_estimator(name, READERS[suffix](path))


def _build_missing_error(source: str) -> UsageError:
    """Return the error for a path that is not there, with a hint if it may be the name of a model on a hub."""
    hint = "name a model: a file, a folder, or file.py:function"
    hub = HUB.fullmatch(source)
    if hub and Path(source).suffix.lower() not in SUFFIXES:
        name = hub["name"]
        hint += f"; from the Hugging Face hub: hf download {name} --local-dir {name.rpartition('/')[2]}"
    return UsageError(f"there is no {source}", hint=hint)


def _build_unknown_error(path: Path) -> UsageError:
    """Return the error for a file that is not a model, with a hint on what to name instead."""
    from orun.scaffold.function_inspection import build_no_function_error

    if path.suffix == ".py":
        return build_no_function_error(path, f"{path} does not say which function returns the model")
    if path.name.lower().endswith(KERAS_WEIGHTS):
        why = "it holds weights without the layers that use them"
        return UsageError(f"{path} is not a whole model", why=why, hint="save it all: model.save('model.keras')")
    if path.suffix.lower() in WEIGHTS:
        why = "it holds weights without the code that uses them"
        hint = "name its folder of transformers, or a function that builds the module: orun init file.py:function"
        return UsageError(f"{path} is not a whole model", why=why, hint=hint)
    return UsageError(f"orun does not know the model format of {path}", why=f"expected {FORMS}", hint="orun stages")


def _inspect_folder(name: str, path: Path, inputs: tuple[InputFact, ...]) -> ModelFacts:
    from orun.scaffold.transformers_inspection import has_weights, inspect_transformers

    if (path / "saved_model.pb").is_file():
        return ModelFacts("tensorflow", name, inputs)
    models = sorted(path.rglob("*.onnx"))
    if (path / "config.json").is_file() and (has_weights(path) or not models):
        return inspect_transformers(name, path)
    if models:
        names = ", ".join(model.relative_to(path).as_posix() for model in models[:SHOWN])
        raise UsageError(f"{path} is a folder around {names}", hint=f"orun init {quote(models[0])}")
    if (path / "adapter_config.json").is_file():
        raise UsageError(
            f"{path} is an adapter, not a whole model",
            why="its weights are added to those of another model",
            hint="merge them and save the whole: model.merge_and_unload().save_pretrained('merged'); then: "
            "orun init merged",
        )
    if (path / "model_index.json").is_file():
        raise UsageError(
            f"{path} is a folder of diffusers, which holds several models",
            hint="write a function that returns one of them: orun init file.py:function --input ...",
        )
    why = "a folder of transformers has config.json, a SavedModel has saved_model.pb"
    raise UsageError(f"{path} is not a model", why=why, hint=f"ls {quote(path)}")


if __name__ == "__main__":
    sys.exit(main(sys.stdin.read()))
