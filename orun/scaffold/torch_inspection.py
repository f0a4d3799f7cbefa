"""Inspection of PyTorch models: exported programs, TorchScript, modules; outputs by one call."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from orun.core.dynamic_axes import compute_size, list_batch_axes, list_free
from orun.errors import UsageError
from orun.scaffold.model_facts import InputFact, InputsUnknown, ModelFacts, with_values
from orun.stages._graph.feeds import SIZES

TRIED = 400  # size of a dynamic axis that a module is called with
SAMPLES = 4000  # the same for a waveform: a quarter of a second of speech
IMAGE_SIZES = (224, 256)  # sizes of dynamic axes of images: networks that halve them five times take multiples of 32
IMAGE_AXES = 4  # batch, channels and sides
BATCHED = 2  # examples of a call

Sizes: TypeAlias = Mapping[str, tuple[int, ...]]
Shapes: TypeAlias = Mapping[str, Sequence[int]]


def inspect_program(name: str, path: Path) -> ModelFacts:
    """Return the facts about an ExportedProgram, which knows its inputs."""
    import torch

    program = torch.export.load(path)
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    inputs = []
    for item in program.graph_signature.user_inputs:
        value = values[item]
        shape = tuple(size if isinstance(size, int) else str(size) for size in value.shape)
        inputs.append(with_values(InputFact(item, str(value.dtype).removeprefix("torch."), shape)))
    return ModelFacts("torch", name, tuple(inputs), name_outputs(len(program.graph_signature.user_outputs)))


def inspect_torchscript(name: str, path: Path, inputs: tuple[InputFact, ...]) -> ModelFacts:
    """Return the facts about a TorchScript file.

    Raises:
        UsageError: when the file holds weights or a pickled module instead.
    """
    import torch

    try:
        module = torch.jit.load(path, map_location="cpu")
    except RuntimeError as error:
        raise UsageError(
            f"{path} is not TorchScript",
            why="a file of torch.save holds weights, or a pickled module, which orun does not unpickle",
            hint="write a function that builds the module and loads them: orun init file.py:function",
        ) from error
    return inspect_module(name, module, [item.debugName() for item in module.graph.inputs()][1:], inputs)


def list_forward_parameters(module: Any) -> list[str]:
    """Return the names of the inputs of a module's `forward`."""
    return [item for item in inspect.signature(module.forward).parameters if item not in ("args", "kwargs")]


def inspect_module(name: str, module: Any, parameters: Sequence[str], inputs: tuple[InputFact, ...]) -> ModelFacts:
    """Return the facts about a module, whose outputs are counted by one call.

    Raises:
        InputsUnknown: when no inputs are declared.
    """
    if not inputs:
        declared = " ".join(f"--input '{item}=float32[batch,...]'" for item in parameters)
        raise InputsUnknown(
            f"{name} does not say what it takes",
            parameters,
            why=f"its forward has the parameters {', '.join(parameters)}, and PyTorch keeps no shapes",
            hint=f"the same command with {declared}",
        )
    from orun.stages._graph.feeds import Input
    from orun.stages._torch.export import bind

    bound = bind(module, [Input(item.name, item.dtype, item.shape) for item in inputs])
    named = {item.name: item for item in inputs}
    ordered = [named[item.name] for item in bound.inputs]
    again = "declare the types and axes that it takes: --input 'NAME=float32[batch,...]'"
    outputs, sizes = call_once(name, bound.module, ordered, again, by_name=bound.by_name)
    return ModelFacts("torch", name, inputs, outputs, sizes)


def call_once(
    name: str, module: Any, inputs: Sequence[InputFact], hint: str, *, by_name: bool, size: int = TRIED
) -> tuple[tuple[str, ...], Sizes]:
    """Return the names of a module's outputs, and the sizes of its dynamic axes if small ones do not suit it.

    They do not if it fails, or if an axis of an output is 1 that is longer at other sizes: its export would have a
    constant there.

    Raises:
        UsageError: when it cannot be called with these inputs.
    """
    try:
        sizes, shapes = _call_at_first_fit(module, inputs, _list_sizes(inputs, size), by_name=by_name)
    except UsageError as error:
        raise UsageError(f"{name}: {error.problem}", why=error.why, hint=error.hint) from error
    except Exception as error:
        from orun.stages._torch.advice import advise_call

        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise UsageError(
            f"{name} cannot be called with {', '.join(map(str, inputs))}",
            why=f"{type(error).__name__}: {lines[0] if lines else 'without a message'}",
            hint=advise_call(module, {item.dtype for item in inputs}, str(error)) or hint,
        ) from error
    try:
        _call(module, inputs, dict.fromkeys(sizes, min(SIZES)), by_name=by_name)
        small = _call(module, inputs, dict.fromkeys(sizes, max(SIZES)), by_name=by_name)
        grows = any(pair[0] == 1 < pair[1] for name in shapes for pair in zip(small[name], shapes[name], strict=True))
    except Exception:  # noqa: BLE001 - whatever a module raises for sizes that it cannot take
        return tuple(shapes), sizes
    return tuple(shapes), sizes if grows else {}


def _call_at_first_fit(
    module: Any, inputs: Sequence[InputFact], choices: Sequence[Sizes], *, by_name: bool
) -> tuple[Sizes, Shapes]:
    """Call a module at the first sizes that it takes; return them and the shapes of its outputs."""
    *longer, last = choices
    for sizes in longer:
        with suppress(Exception):
            return sizes, _call(module, inputs, _take_first(sizes), by_name=by_name)
    return last, _call(module, inputs, _take_first(last), by_name=by_name)


def _take_first(sizes: Sizes) -> Mapping[str, int]:
    """Return the first size of each axis."""
    return {axis: pair[0] for axis, pair in sizes.items()}


def _list_sizes(inputs: Sequence[InputFact], size: int) -> list[Sizes]:
    """Return choices of two sizes for each dynamic axis, except that of the batch; a waveform is long at first."""
    shapes = [item.shape for item in inputs]
    floats = [item.shape for item in inputs if item.dtype.startswith("float")]
    batch, image_axes = list_batch_axes(shapes), list_free(shape for shape in floats if len(shape) == IMAGE_AXES)
    usual = {
        axis: IMAGE_SIZES if axis in image_axes else _widen(size) for axis in list_free(shapes) if axis not in batch
    }
    takes_waveforms = floats == shapes and all({*shape[1:-1]} <= {1} for shape in shapes)
    return [dict.fromkeys(usual, _widen(SAMPLES)), usual] if takes_waveforms and usual else [usual]


def _widen(size: int) -> tuple[int, int]:
    """Return a size and a larger one."""
    return size, size + size // 2


def name_outputs(count: int) -> tuple[str, ...]:
    """Return names for the outputs of a model that has none."""
    return ("output",) if count == 1 else tuple(f"output{number}" for number in range(count))


def _call(module: Any, inputs: Sequence[InputFact], sizes: Mapping[str, int], *, by_name: bool) -> Shapes:
    """Return the shapes of a module's outputs after one call, by the keys of a returned mapping, else by number."""
    import torch

    from orun.stages._torch.export import flatten

    sizes = {**dict.fromkeys(list_free(item.shape for item in inputs), BATCHED), **sizes}
    feeds = {}
    for item in inputs:
        shape = [axis if isinstance(axis, int) else compute_size(axis, sizes) for axis in item.shape]
        feeds[item.name] = torch.ones(shape, dtype=getattr(torch, item.dtype))
    with torch.no_grad():
        result = module(**feeds) if by_name else module(*feeds.values())
    shapes = [tuple(tensor.shape) for tensor in flatten(result)]  # it refuses what is no tensor
    names = _iter_names("", result) if isinstance(result, Mapping) else name_outputs(len(shapes))
    return dict(zip(names, shapes, strict=True))


def _iter_names(name: str, value: Any) -> Iterator[str]:
    """Yield a name for each tensor of an output, in the order in which `flatten` yields them."""
    if isinstance(value, Mapping | list | tuple):
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, item in items:
            yield from _iter_names(f"{name}_{key}" if name else str(key), item)
    elif value is not None:
        yield name
