"""A PyTorch module to an ONNX model that says the same on every machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orun.errors import UsageError
from orun.stages._graph.feeds import Input
from orun.stages._graph.sessions import Feed
from orun.stages.code import signature_of
from orun.stages.library_warnings import warnings_to

if TYPE_CHECKING:
    import logging
    from inspect import Signature

    import torch
    from numpy.typing import NDArray

    Array = NDArray[Any]


TAKEN = "name what forward takes and has no default for"
PACKED = (
    "a forward that takes them all in one: let the function of `model` return a module around it, "
    "whose forward has a parameter for each of `inputs`"
)


@dataclass(frozen=True)
class Bound:
    """A module and how its inputs reach `forward`.

    Attributes:
        module: in evaluation mode.
        inputs: what it takes, in the order in which `forward` takes them.
        by_name: whether every input is a parameter of `forward`; they go by position otherwise.
        program: the ExportedProgram that the module was made of, if any; it has its own dynamic axes.
        renamed: parameters of `forward` that get inputs of other names, in the order given -> those.
    """

    module: torch.nn.Module
    inputs: tuple[Input, ...]
    by_name: bool
    program: Any = None
    renamed: Mapping[str, str] = field(default_factory=dict)

    def arguments(self, feed: Feed) -> tuple[tuple[torch.Tensor, ...], dict[str, torch.Tensor]]:
        """Positional and named arguments for `forward`; copies, so that a module may change them."""
        import torch

        tensors = {item.name: torch.tensor(feed[item.name]) for item in self.inputs}
        return ((), tensors) if self.by_name else (tuple(tensors.values()), {})

    def __call__(self, feed: Feed) -> list[Array]:
        """What the module returns, flattened to arrays."""
        import torch

        positional, named = self.arguments(feed)
        with torch.inference_mode():
            return [tensor.numpy() for tensor in flatten(self.module(*positional, **named))]


def bind(module: torch.nn.Module, inputs: Sequence[Input]) -> Bound:
    """Match the inputs with the parameters of the module's `forward`."""
    import torch

    from orun.stages._torch.quantized import at_rest

    scripted = isinstance(module, torch.jit.ScriptModule)
    if scripted:
        parameters = [argument.name for argument in module.forward.schema.arguments[1:]]  # all but `self`
    else:
        parameters = list(signature_of(module.forward).parameters)
    known = all(item.name in parameters for item in inputs)
    if not known:
        _require_in_place(parameters, [item.name for item in inputs])
    if not scripted:
        _require_taken(signature_of(module.forward), [item.name for item in inputs], known)
    order = sorted(inputs, key=lambda item: parameters.index(item.name)) if known else inputs
    strict = scripted or isinstance(module, torch.fx.GraphModule)  # what `torch.export` made takes no names
    return Bound(
        at_rest(module), tuple(order), by_name=known and not strict, renamed={} if known else _renamed(module, inputs)
    )


def _renamed(module: torch.nn.Module, inputs: Sequence[Input]) -> dict[str, str]:
    """The parameters of a module's forward, before those that it takes as a list, with the inputs of other names."""
    import torch

    if isinstance(module, torch.jit.ScriptModule):
        names = [argument.name for argument in module.forward.schema.arguments[1:]]
    else:
        parameters = signature_of(module.forward).parameters.values()
        names = [one.name for one in takewhile(lambda one: one.kind is not one.VAR_POSITIONAL, parameters)]
    return {name: item.name for name, item in zip(names, inputs, strict=False) if name != item.name}


def _require_in_place(parameters: Sequence[str], names: Sequence[str]) -> None:
    """Refuse names of which some are parameters in other places: by position another value would be taken for them."""
    taken = dict(zip(parameters, names, strict=False))
    swapped = [(place, name) for place, name in taken.items() if name != place and name in parameters]
    if swapped:
        place, name = swapped[0]
        unknown = ", ".join(one for one in names if one not in parameters)
        raise UsageError(
            f"`inputs` would give {name!r} to {place!r} of the module's forward",
            why=f"it has no parameter {unknown}, so that they go in the order given: {', '.join(names)}\n"
            f"its forward is ({', '.join(parameters)})",
            hint="name its parameters in `inputs`; or give all in its order, under names of your own",
        )


def _require_taken(forward: Signature, names: Sequence[str], known: bool) -> None:
    """Refuse inputs with which the module cannot be called."""
    try:
        forward.bind(**dict.fromkeys(names)) if known else forward.bind(*names)
    except TypeError as error:
        raise UsageError(
            "the module does not take these `inputs`",
            why=f"{', '.join(names)}: {error}\nits forward is {forward}",
            hint=PACKED if len(forward.parameters) == 1 < len(names) else TAKEN,
        ) from None


def bind_program(program: Any, inputs: Sequence[Input]) -> Bound:
    """Match the inputs with what an ExportedProgram was exported with: by name where it was, by position otherwise."""
    module = program.module()
    parameters = list(signature_of(module.forward).parameters)
    known = all(item.name in parameters for item in inputs)
    order = sorted(inputs, key=lambda item: parameters.index(item.name)) if known else inputs
    named = bool(program.example_inputs and program.example_inputs[1])
    renamed = {} if known else _renamed(module, inputs)
    return Bound(module, tuple(order), by_name=known and named, program=program, renamed=renamed)


def flatten(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in what a module returned: a tensor, or mappings and sequences of them; None is left out."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from flatten(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from flatten(item)
    elif value is not None:
        raise UsageError(
            f"the module returned a {type(value).__name__}, which is no tensor",
            why="it may return tensors, and lists, tuples and mappings of them",
            hint="let the function of `model` return a module around it, whose forward returns the tensors of that",
        )


def plain(model: Any, names: Sequence[str]) -> torch.nn.Module:
    """A model of transformers as a module that takes these inputs in order and returns tensors alone."""
    import torch

    class Plain(torch.nn.Module):  # type: ignore[misc]  # torch is not checked
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return tuple(flatten(self.model(**dict(zip(names, tensors, strict=True)))))

    return Plain()


def _positional(module: torch.nn.Module, shapes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Dynamic axes of inputs that go by position: those of `*tensors` are one parameter's."""
    return tuple(signature_of(module.forward).bind(*shapes).arguments.values())


def export(bound: Bound, example: Feed, opset: int, exporter: str, log: logging.Logger) -> Path:
    """Export the module with PyTorch's own exporter, into the working folder; its warnings go to the log.

    The inputs of the graph are those of `bound`, in order, under whichever names. Modules that round while they are
    trained are replaced in it.
    """
    import torch

    from orun.stages._torch.quantized import frozen

    path = Path("export.onnx")
    positional, named = bound.arguments(example)
    axes = {
        item.name: {place: axis for place, axis in enumerate(item.shape) if isinstance(axis, str)}
        for item in bound.inputs
    }
    options: dict[str, Any]
    if bound.program is not None:
        options = {"dynamo": True, "verbose": False}
    elif exporter == "torchscript":
        options = {"dynamo": False, "dynamic_axes": axes, "input_names": list(axes)}
        if isinstance(bound.module, torch.fx.GraphModule):  # else its graph is taken for TorchScript's
            options["output_names"] = ["first"]  # of the first; `name_values` names them all
    else:
        shapes = axes if bound.by_name else _positional(bound.module, tuple(axes.values()))
        options = {"dynamo": True, "dynamic_shapes": shapes, "verbose": False}
    with warnings_to(log), torch.inference_mode():
        torch.onnx.export(
            frozen(bound.module, exporter) if bound.program is None else bound.program,
            positional,
            str(path),  # TorchScript writes external data only beside a path that is text
            kwargs=named,
            opset_version=opset,
            **options,
        )
    return path
