"""Sources of a PyTorch model: a function of the user's, a PyTorch file, a folder or hub id of transformers."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orun.environment.env_vars import variable
from orun.errors import StageFailed
from orun.stages._data.packages import need
from orun.stages._graph.feeds import Input
from orun.stages._torch.export import Bound, bind, bind_program, plain
from orun.stages.contract import Context
from orun.stages.datasets import CODE
from orun.stages.library_errors import failing
from orun.stages.library_warnings import warnings_to
from orun.stages.params import Code

if TYPE_CHECKING:
    from orun.stages.convert.torch import Params, Transformers

COMMIT = re.compile(r".+@[0-9a-f]{40}")
SAFETENSORS = ".safetensors"
WEIGHTS = (SAFETENSORS, ".pt", ".pth")
FUNCTION = (
    "a pickled module or `state_dict` takes a function that makes the module: model: file.py:function, weights: FILE"
)


def open_model(context: Context, params: Params, inputs: Sequence[Input]) -> Bound:
    """The model that the parameters name, with its inputs matched.

    Raises:
        StageFailed: when it cannot be read.
    """
    import torch

    _require_used(context, params)
    torch.manual_seed(context.seed)  # the function may make weights up
    names = [item.name for item in inputs]
    with warnings_to(context.log):
        if params.hub is not None:
            return bind(plain(_hub(context, params.hub, params.transformers), names), inputs)
        if CODE.fullmatch(str(params.model)):
            return bind(_made(context, params), inputs)
        path = context.root / str(params.model)
        if path.is_dir():
            model = _pretrained(context, str(path), params.transformers, str(params.model))
            return bind(plain(model, names), inputs)
        return _file(context, path, params, inputs)


def _require_used(context: Context, params: Params) -> None:
    """Refuse what the source of the model would leave unread."""
    made = params.hub is None and CODE.fullmatch(str(params.model)) is not None
    connected = "weights" in context.inputs
    if made and params.transformers != type(params.transformers)():
        raise StageFailed(
            context.stage,
            f"`transformers` is of no use, as {params.model} makes the model itself",
            hint="leave it out, and choose class and attention in that function",
        )
    if (params.weights is not None or connected) and not made:
        source = params.hub or params.model
        given = "the input `weights`" if connected else "`weights`"
        raise StageFailed(
            context.stage, f"{given} is of no use, as {source} brings its own", hint=f"leave it out, or {FUNCTION}"
        )
    if params.weights is not None and connected:
        raise StageFailed(
            context.stage,
            "weights come from a stage and from a file",
            hint="leave one of them out: `needs` or `weights`",
        )


def _made(context: Context, params: Params) -> Any:
    """What the user's function returns, with the weights of a file where one is named."""
    import torch

    load = context.load(Code(str(params.model)), ())
    if isinstance(load, torch.nn.Module):
        name = str(params.model).rpartition(":")[2]
        raise StageFailed(
            context.stage,
            f"{params.model} is of type {type(load).__name__}, not a function that returns one",
            hint=f"def load(): return {name}",
        )
    module = load()
    if not isinstance(module, torch.nn.Module):
        raise StageFailed(
            context.stage, f"{params.model} must return a torch.nn.Module", why=f"it returned a {type(module).__name__}"
        )
    path = _trained(context) if "weights" in context.inputs else None
    if params.weights is not None:
        path = context.root / params.weights
    if path is not None:
        name = params.weights or path.name
        state = _weights(context, path, str(name))
        try:
            module.load_state_dict(state)
        except RuntimeError as error:
            raise StageFailed(
                context.stage,
                f"{name} does not fit the module that {params.model} returns",
                why="\n".join(line.strip() for line in str(error).splitlines()[1:6]),
            ) from error
    return module


def _trained(context: Context) -> Path:
    """The one file of weights among what the stage before this one left."""
    folder = context.inputs["weights"]
    found = sorted(path for path in folder.rglob("*") if path.suffix in WEIGHTS)
    if len(found) != 1:
        names = ", ".join(str(path.relative_to(folder)) for path in found) or "none"
        raise StageFailed(
            context.stage,
            f"the input `weights` must hold one file of weights: {', '.join(WEIGHTS)}",
            why=f"found {names}",
        )
    return found[0]


def _weights(context: Context, path: Path, name: str) -> Any:
    """The tensors of a `state_dict`; nothing that is in the file is run."""
    import torch

    hint = "save them so: torch.save(model.state_dict(), ...); or as safetensors"
    with failing(context, f"{name} is no file of weights alone", hint):
        if path.suffix != SAFETENSORS:
            return torch.load(path, map_location="cpu", weights_only=True)
        need("safetensors", f"reading {name}")
        from safetensors.torch import load_file

        return load_file(path)


def _file(context: Context, path: Path, params: Params, inputs: Sequence[Input]) -> Bound:
    """A model that PyTorch saved whole: an ExportedProgram, or TorchScript."""
    import torch

    what = f"{params.model} is neither TorchScript nor an ExportedProgram that is safe to read"
    with failing(context, what, FUNCTION), only_weights():
        if path.suffix == ".pt2":
            with suppress(ImportError):  # a program that `convert_pt2e` made has operators that this registers
                importlib.import_module("torch.ao.quantization.fx._decomposed")
            return bind_program(torch.export.load(path), inputs)
        return bind(torch.jit.load(path, map_location="cpu"), inputs)


def only_weights() -> AbstractContextManager[None]:
    """Within it `torch.load` takes weights alone; `torch.export.load` would fall back to a pickle that can run code."""
    return variable("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1")


def _hub(context: Context, hub: str, how: Transformers) -> Any:
    if not COMMIT.fullmatch(hub):
        raise StageFailed(
            context.stage,
            f"{hub} does not say which revision of the model",
            why="what a name alone stands for can change, and then the result would",
            hint="give the whole commit: hub: owner/name@0123456789abcdef0123456789abcdef01234567",
        )
    name, _, revision = hub.rpartition("@")
    return _pretrained(context, name, how, hub, revision=revision)


def _pretrained(context: Context, path: str, how: Transformers, name: str, **options: Any) -> Any:
    """A model of transformers in its own class, or the one asked for; no code that comes with it is run."""
    need("transformers", f"the model {name}", "transformers")
    import transformers

    local = {} if options else {"local_files_only": True}
    hint = (
        "the folder holds config.json and the weights, as save_pretrained leaves them"
        if local
        else "see that the hub can be reached, or name a folder"
    )
    with failing(context, f"transformers cannot load {name}", hint):
        config = transformers.AutoConfig.from_pretrained(path, trust_remote_code=False, **options, **local)
        title = how.model_class or (config.architectures or ["AutoModel"])[0]
        kind = getattr(transformers, title, None)
        if kind is None:
            raise StageFailed(
                context.stage, f"transformers has no class {title!r}", hint="set `transformers: {model_class: ...}`"
            )
        config.use_cache = False  # what is kept between calls is no output
        return kind.from_pretrained(
            path, config=config, attn_implementation=how.attention, trust_remote_code=False, **options, **local
        )
