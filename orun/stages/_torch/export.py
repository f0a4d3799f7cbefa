"""PyTorch modules with their inputs bound to `forward`, and their export."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from inspect import Signature
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_unflatten

from orun.errors import UsageError
from orun.measure.dataset import Array
from orun.stages._graph.feeds import Input
from orun.stages._graph.sessions import Feed
from orun.stages._torch.advice import PACKED_HINT
from orun.stages._torch.quantized import freeze, stop_training
from orun.stages.code import inspect_signature

RETURNED = "it may return tensors, and lists, tuples and mappings of them"
MISSING_HINT = "name what forward takes and has no default for"


@dataclass(frozen=True)
class Bound:
    """Module with the way in which its inputs reach `forward`.

    Attributes:
        module: in evaluation mode.
        inputs: in the order in which `forward` takes them.
        by_name: whether every input is a parameter of `forward`; otherwise they are passed by position.
        program: the ExportedProgram of the module, if any, which has its own dynamic axes.
        renamed: parameters of `forward` that get an input of another name, with that name.
        nesting: PyTorch's description of arguments that are mappings or sequences of the inputs; None if none is.
    """

    module: torch.nn.Module
    inputs: tuple[Input, ...]
    by_name: bool
    program: Any = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    nesting: Any = None

    def build_arguments(self, feed: Feed) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return positional and named arguments for `forward`, as copies that a module may change."""
        tensors = {item.name: torch.tensor(feed[item.name]) for item in self.inputs}
        if self.nesting is not None:
            positional, named = torch.utils._pytree.tree_unflatten(tensors.values(), self.nesting)  # noqa: SLF001
            return positional, named
        return ((), tensors) if self.by_name else (tuple(tensors.values()), {})

    def __call__(self, feed: Feed) -> list[Array]:
        """Run the module; return its tensors as a flat list of arrays."""
        positional, named = self.build_arguments(feed)
        with torch.inference_mode():
            return [tensor.numpy() for tensor in flatten(self.module(*positional, **named))]


def bind(module: torch.nn.Module, inputs: Sequence[Input]) -> Bound:
    """Match the inputs with the parameters of the module's `forward`.

    Raises:
        UsageError: when `forward` does not take them.
    """
    scripted = isinstance(module, torch.jit.ScriptModule)
    parameters = _list_parameters(module)
    known = all(item.name in parameters for item in inputs)
    if not known:
        _require_unmixed(parameters, [item.name for item in inputs])
    if not scripted:
        _require_callable(inspect_signature(module.forward), [item.name for item in inputs], known)
    order = sorted(inputs, key=lambda item: parameters.index(item.name)) if known else inputs
    strict = scripted or isinstance(module, torch.fx.GraphModule)  # the module of an ExportedProgram takes no names
    return Bound(
        stop_training(module),
        tuple(order),
        by_name=known and not strict,
        renamed={} if known else _rename_parameters(module, inputs),
    )


def _list_parameters(module: torch.nn.Module) -> list[str]:
    if isinstance(module, torch.jit.ScriptModule):
        return [argument.name for argument in module.forward.schema.arguments[1:]]  # all but `self`
    return list(inspect_signature(module.forward).parameters)


def _rename_parameters(module: torch.nn.Module, inputs: Sequence[Input]) -> dict[str, str]:
    """Return the parameters of `forward` before `*parameters` that get an input of another name, with that name."""
    names = _list_parameters(module)
    if not isinstance(module, torch.jit.ScriptModule):
        parameters = inspect_signature(module.forward).parameters.values()
        names = [item.name for item in takewhile(lambda item: item.kind is not item.VAR_POSITIONAL, parameters)]
    return {name: item.name for name, item in zip(names, inputs, strict=False) if name != item.name}


def _require_unmixed(parameters: Sequence[str], names: Sequence[str]) -> None:
    """Refuse inputs that would be passed by position to another parameter than the one of their name."""
    passed = dict(zip(parameters, names, strict=False))
    swapped = [(place, name) for place, name in passed.items() if name != place and name in parameters]
    if swapped:
        place, name = swapped[0]
        unknown = ", ".join(item for item in names if item not in parameters)
        raise UsageError(
            f"`inputs` would give {name!r} to {place!r} of the module's forward",
            why=f"it has no parameter {unknown}, so that they go in the order given: {', '.join(names)}\n"
            f"its forward is ({', '.join(parameters)})",
            hint="name its parameters in `inputs`; or give all in its order, under names of your own",
        )


def _require_callable(forward: Signature, names: Sequence[str], known: bool) -> None:
    try:
        forward.bind(**dict.fromkeys(names)) if known else forward.bind(*names)
    except TypeError as error:
        raise UsageError(
            "the module does not take these `inputs`",
            why=f"{', '.join(names)}: {error}\nits forward is {forward}",
            hint=PACKED_HINT if len(forward.parameters) == 1 < len(names) else MISSING_HINT,
        ) from None


def bind_program(program: Any, inputs: Sequence[Input]) -> Bound:
    """Match the inputs with those of an ExportedProgram: by name where it was exported so, otherwise by position.

    Tensors within arguments that are mappings or sequences have the names that the program gives them.
    """
    module = program.module()
    nesting = _find_nesting(program, len(inputs))
    parameters = _list_parameters(module) if nesting is None else list(program.graph_signature.user_inputs)
    known = all(item.name in parameters for item in inputs)
    order = sorted(inputs, key=lambda item: parameters.index(item.name)) if known else inputs
    named = bool(program.example_inputs and program.example_inputs[1])
    renamed = {} if known or nesting is not None else _rename_parameters(module, inputs)
    return Bound(module, tuple(order), by_name=known and named, program=program, renamed=renamed, nesting=nesting)


def _find_nesting(program: Any, count: int) -> Any:
    """Return the description of the arguments of a program if one of them holds several of its tensors."""
    spec = program.call_spec.in_spec
    if spec is None or spec.num_leaves != count:
        return None
    positional, named = tree_unflatten(range(count), spec)
    return None if all(isinstance(item, int) for item in (*positional, *named.values())) else spec


def flatten(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in a tensor, or in mappings and sequences of them; skip None.

    Raises:
        UsageError: when there is an object of another type.
    """
    return (tensor for _, tensor in flatten_named(value))


def flatten_named(value: Any, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors of `flatten`, each with the innermost key or field under which it stands, or `name`."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from flatten_named(item, str(key))
    elif isinstance(value, (list, tuple)):
        fields = getattr(value, "_fields", [name] * len(value))  # of a named tuple
        for field_name, item in zip(fields, value, strict=True):
            yield from flatten_named(item, field_name)
    elif isinstance(value, (int, float)):
        raise UsageError(
            f"the module returned the number {value!r}, which is no tensor",
            why=RETURNED,
            hint=f"return torch.tensor({value!r}), or leave it out",
        )
    elif value is not None:
        kind = type(value).__name__
        raise UsageError(
            f"the module returned an object of type {kind}, which is no tensor",
            why=RETURNED,
            hint="turn the cache off in the function of `model`: module.config.use_cache = False"
            if kind.endswith("Cache")  # of keys and values, as decoders of transformers return
            else "let the function of `model` return a module around it, whose forward returns the tensors of that",
        )


def require_exporter(bound: Bound, exporter: str) -> None:
    """Refuse an exporter that does not take this form of model.

    Raises:
        UsageError: when there is another one that does.
    """
    if exporter in (fitting := _list_exporters(bound)):
        return
    form = "TorchScript" if bound.program is None else "an ExportedProgram"
    raise UsageError(f"PyTorch's {exporter} exporter does not take {form}", hint=f"exporter: {fitting[0]}")


def require_opset(bound: Bound, exporter: str, wanted: int, opset: int) -> None:
    """Refuse a model of another operator set than the one wanted.

    The dynamo exporter writes one of its own and converts it to older ones. If that fails, it keeps the model as it is.

    Raises:
        UsageError: when the two differ.
    """
    if opset == wanted:
        return
    alternatives = [f"`exporter: {name}`" for name in _list_exporters(bound) if name != exporter]
    raise UsageError(
        f"PyTorch's {exporter} exporter made a model of operator set {opset}, not {wanted}",
        why=f"it cannot convert this model to {wanted}; the log has its whole message",
        hint=", or ".join([*alternatives, f"`opset: {opset}`"]),
    )


def advise_other(bound: Bound, exporter: str) -> str:
    """Return what else to try after an export that failed, or whose result is wrong."""
    alternatives = [f"`exporter: {name}`" for name in _list_exporters(bound) if name != exporter]
    return "try " + ", or ".join([*alternatives, "another `opset`"])


def _list_exporters(bound: Bound) -> tuple[str, ...]:
    if bound.program is not None:
        return ("dynamo",)
    return ("torchscript",) if isinstance(bound.module, torch.jit.ScriptModule) else ("dynamo", "torchscript")


def export(bound: Bound, example: Feed, opset: int, exporter: str) -> Path:
    """Export the module with PyTorch's exporter into the working folder.

    The inputs of the graph are those of `bound`, in order, under any names. Modules of fake quantization are replaced
    in it.
    """
    path = Path("export.onnx")
    positional, named = bound.build_arguments(example)
    axes = {
        item.name: {place: axis for place, axis in enumerate(item.shape) if isinstance(axis, str)}
        for item in bound.inputs
    }
    options: dict[str, Any]
    passing: AbstractContextManager[None] = nullcontext()
    if bound.program is not None:
        options = {"dynamo": True, "verbose": False}
    elif exporter == "torchscript":
        options = {"dynamo": False, "dynamic_axes": axes, "input_names": list(axes)}
        if isinstance(bound.module, torch.fx.GraphModule):  # or the exporter takes its graph for TorchScript
            options["output_names"] = ["first"]  # a name for the first; `name_values` names them all
        if not isinstance(bound.module, torch.jit.ScriptModule):
            passing = _passing_inputs_alone(bound.module, tuple(named))
            positional, named = (*positional, *named.values()), {}
    else:
        shapes: Any = axes
        if not bound.by_name:  # the axes of all `*tensors` belong to one parameter
            shapes = tuple(inspect_signature(bound.module.forward).bind(*axes.values()).arguments.values())
        options = {"dynamo": True, "dynamic_shapes": shapes, "verbose": False}
    with torch.inference_mode(), passing:
        torch.onnx.export(
            freeze(bound.module, exporter) if bound.program is None else bound.program,
            positional,
            str(path),  # TorchScript writes external data only for a path of type str
            kwargs=named,
            opset_version=opset,
            **options,
        )
    return path


@contextmanager
def _passing_inputs_alone(module: torch.nn.Module, names: Sequence[str]) -> Iterator[None]:
    """Let `forward` take its inputs in order, and nothing else, meanwhile.

    The TorchScript exporter passes the defaults of all other parameters, and makes inputs of the numbers among them.
    The names are of inputs that it takes by name; there are none if it takes them by position.
    """
    own, forward = vars(module).get("forward"), module.forward

    def pass_inputs(*tensors: torch.Tensor) -> Any:
        return forward(**dict(zip(names, tensors, strict=True))) if names else forward(*tensors)

    module.forward = pass_inputs
    try:
        yield
    finally:
        del module.forward
        if own is not None:
            module.forward = own
