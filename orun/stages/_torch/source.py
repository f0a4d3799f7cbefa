"""Sources of a PyTorch model: a function of the user, a PyTorch file, a folder or hub id of transformers."""

from __future__ import annotations

import importlib
import pickle
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile, is_zipfile

import torch
from torch.nn.parameter import is_lazy

from orun.environment.env_vars import set_variable
from orun.stages._data.packages import need
from orun.stages._graph.feeds import Input
from orun.stages._torch.export import Bound, bind, bind_program
from orun.stages._torch.plain import Plain
from orun.stages._torch.pretrained import UnknownClass, load_pretrained
from orun.stages.contract import Context
from orun.stages.datasets import CODE
from orun.stages.library_errors import failing
from orun.stages.library_warnings import warnings_to
from orun.stages.params import Code
from orun.stages.port_files import find_only_file

COMMIT = re.compile(r".+@[0-9a-f]{40}")
SAFETENSORS = ".safetensors"
WEIGHTS = (SAFETENSORS, ".pt", ".pth")
ZIP = b"PK\x03\x04"  # how a file of torch.save begins
STATES = ("state_dict", "model_state_dict", "model")  # keys of the weights in a checkpoint
PARALLEL = "module."  # how the names of DataParallel's weights begin
MADE_TWICE = 10**8  # numbers of the largest module that is made once more to see whether its weights are random
FUNCTION = (
    "a pickled module or `state_dict` takes a function that makes the module: model: file.py:function, weights: FILE"
)


@dataclass(frozen=True)
class Source:
    """Source of a model.

    Attributes:
        hub: `owner/name@commit` on the Hugging Face hub; empty for `name`.
        name: of a function, or of a file or folder relative to the project.
        weights: file of the weights for the function's module; None when it has them.
        weights_name: of that file, for messages.
        model_class: class of a model of transformers; empty for that of its configuration.
        attention: how a model of transformers computes attention.
    """

    hub: str
    name: str
    weights: Path | None
    weights_name: str
    model_class: str
    attention: str


def load_source(context: Context, source: Source, inputs: Sequence[Input]) -> Bound:
    """Open the model and match its inputs.

    Raises:
        StageFailed: when it cannot be read.
    """
    torch.manual_seed(context.seed)  # a function may initialize weights at random
    names = [item.name for item in inputs]
    with warnings_to(context.log):
        if source.hub:
            return bind(Plain(_from_hub(context, source), names), inputs)
        if CODE.fullmatch(source.name):
            return bind(load_module(context, source.name, source.weights, source.weights_name), inputs)
        path = context.root / source.name
        if path.is_dir():
            model = _from_transformers(context, str(path), source, source.name)
            return bind(Plain(model, names), inputs)
        return _from_file(context, path, source.name, inputs)


def note_untrained(context: Context, source: Source, module: torch.nn.Module) -> None:
    """Note that a class stands where a function was asked for, and draws its weights at random."""
    if source.hub or source.weights is not None or not CODE.fullmatch(source.name):
        return
    make = context.load(Code(source.name), ())
    numbers = sum(value.numel() for value in module.parameters() if not is_lazy(value))
    if not isinstance(make, type) or numbers > MADE_TWICE:
        return
    torch.manual_seed(context.seed + 1)
    pairs = zip(module.parameters(), make().parameters(), strict=False)
    if any(is_lazy(other) or not torch.equal(ours, other) for ours, other in pairs):
        context.note(
            f"the weights of {source.name} are drawn at random, as it is a class: name a file of trained ones, "
            "`weights: FILE`, or a function that loads them"
        )


def find_trained_weights(context: Context) -> Path | None:
    """Return the file of weights from the stage at the input `weights`; None when no stage is connected there."""
    return find_only_file(context, "weights", "file of weights", WEIGHTS) if "weights" in context.inputs else None


def load_module(context: Context, function: str, weights: Path | None = None, weights_name: str = "") -> Any:
    """Call the user's function, and load weights into its module.

    Raises:
        StageFailed: when it returns no module, or the weights do not fit.
    """
    load = context.load(Code(function), ())
    if isinstance(load, torch.nn.Module):
        name = function.rpartition(":")[2]
        raise context.failed(
            f"{function} is of type {type(load).__name__}, not a function that returns one",
            hint=f"def load(): return {name}",
        )
    torch.manual_seed(context.seed)  # it may draw weights; what its file imports may have drawn numbers as well
    module = load()
    if not isinstance(module, torch.nn.Module):
        raise context.failed(f"{function} must return a torch.nn.Module", why=f"it returned a {type(module).__name__}")
    if weights is not None:
        name = weights_name or weights.name
        state = _read_weights(context, weights, name)
        try:
            module.load_state_dict(state)
        except RuntimeError as error:
            raise context.failed(
                f"{name} does not fit the module that {function} returns",
                why="\n".join(line.strip() for line in str(error).splitlines()[1:6]),
                hint=_advise_state(state),
            ) from error
    return module


def _advise_state(state: Mapping[str, Any]) -> str:
    """Return how to save weights that fit, where the file holds more or they have other names; else empty."""
    checkpoints = [key for key in STATES if isinstance(state.get(key), Mapping)]
    if checkpoints:
        return f"it is a checkpoint: save its weights alone, torch.save(checkpoint[{checkpoints[0]!r}], ...)"
    if state and all(name.startswith(PARALLEL) for name in state):
        return (
            f"DataParallel puts {PARALLEL!r} before its names: torch.save(model.module.state_dict(), ...); or save "
            f"{{name.removeprefix({PARALLEL!r}): value for name, value in state.items()}}"
        )
    return ""


def _read_weights(context: Context, path: Path, name: str) -> Any:
    """Return the tensors of a `state_dict`. No code in the file is run."""
    hint = "save them so: torch.save(model.state_dict(), ...); or as safetensors"
    _require_complete(context, path, name)
    with failing(context, f"{name} is no file of weights alone", hint):
        if path.suffix.lower() != SAFETENSORS:
            return torch.load(path, map_location="cpu", weights_only=True)
        need("safetensors", f"reading {name}")
        from safetensors.torch import load_file

        return load_file(path)


def _require_complete(context: Context, path: Path, name: str) -> None:
    """Refuse the beginning of a zip file. Its list of contents stands at the end."""
    with path.open("rb") as file:
        is_archive = file.read(len(ZIP)) == ZIP
    if is_archive and not is_zipfile(path):
        raise context.failed(f"{name} is cut off", why="its end is missing", hint="copy it again")


def _from_file(context: Context, path: Path, name: str, inputs: Sequence[Input]) -> Bound:
    problem = f"{name} is neither TorchScript nor an ExportedProgram that is safe to read"
    _require_complete(context, path, name)
    is_program = path.suffix.lower() == ".pt2"
    if not is_program and (why := _explain_no_script(path)):
        raise context.failed(problem, why=why, hint=FUNCTION)
    # `torch.export.load` would fall back to a pickle, which can run code.
    with failing(context, problem, FUNCTION), set_variable("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1"):
        if is_program:
            with suppress(ImportError):  # it registers the operators of programs that `convert_pt2e` made
                importlib.import_module("torch.ao.quantization.fx._decomposed")
            return bind_program(torch.export.load(path), inputs)
        return bind(torch.jit.load(path, map_location="cpu"), inputs)


def _explain_no_script(path: Path) -> str:
    """Return what a file is instead of TorchScript; empty if it may be that."""
    saved = "it is a pickle of a module or a `state_dict`, as torch.save writes"
    if is_zipfile(path):
        with ZipFile(path) as archive:
            names = {name.rpartition("/")[2] for name in archive.namelist()}
        return "" if "constants.pkl" in names else saved
    with path.open("rb") as file:
        is_pickle = file.read(1) == pickle.PROTO  # as torch.save wrote before PyTorch 1.6
    return saved if is_pickle else "PyTorch writes no such file"


def _from_hub(context: Context, source: Source) -> Any:
    if not COMMIT.fullmatch(source.hub):
        raise context.failed(
            f"{source.hub} does not say which revision of the model",
            why="what a name alone stands for can change, and then the result would",
            hint="give the whole commit: hub: owner/name@0123456789abcdef0123456789abcdef01234567",
        )
    name, _, revision = source.hub.rpartition("@")
    return _from_transformers(context, name, source, source.hub, revision=revision)


def _from_transformers(context: Context, path: str, source: Source, name: str, **options: Any) -> Any:
    """Load a model of transformers from a folder, or of a revision on the hub."""
    need("transformers", f"the model {name}")
    if options:
        hint = "see that the hub can be reached, or name a folder"
    else:
        hint = "the folder holds config.json and the weights, as save_pretrained leaves them"
        options = {"local_files_only": True}
    with failing(context, f"transformers cannot load {name}", hint):
        try:
            return load_pretrained(path, source.model_class, source.attention, **options)
        except UnknownClass as error:
            advice = "set `transformers: {model_class: ...}`"
            raise context.failed(str(error), hint=advice) from error
