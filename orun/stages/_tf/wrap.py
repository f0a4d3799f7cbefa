"""Keras models, TensorFlow functions and other callables as functions of flat, named inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from orun.errors import StageFailed
from orun.stages._graph.feeds import Input
from orun.stages._tf.function import Function
from orun.stages._tf.model import axes
from orun.stages.code import signature_of
from orun.stages.contract import Context

if TYPE_CHECKING:
    from orun.stages.convert.tensorflow import InputSpec, Params

UNNAMED = "keras_tensor"  # begins the name that Keras counts up for an input without one


def wrap(context: Context, model: Any, params: Params) -> Function:
    """A model that a function of the user's returned, or that was read from a file.

    Raises:
        StageFailed: when it cannot be called, or what it takes is not known.
    """
    if isinstance(model, keras.Model):
        return _keras(context, model, params)
    call = model.__call__ if isinstance(model, tf.Module) and callable(model) else model
    if hasattr(call, "structured_input_signature"):
        return signed(call, params.inputs)
    if (
        hasattr(call, "get_concrete_function")
        and getattr(call, "input_signature", None) is not None
        and not _shaped(params)
    ):
        return signed(call.get_concrete_function(), params.inputs, keep=model)
    if not callable(call):
        raise StageFailed(
            context.stage,
            f"{params.model} must return a Keras model or a function of TensorFlow",
            why=f"it returned a {type(model).__name__}",
        )
    return _by_parameters(context, call, params, keep=model)


def signed(concrete: Any, said: Mapping[str, InputSpec], keep: Any = None) -> Function:
    """A concrete function, which has a signature of its own."""
    structure = concrete.structured_input_signature
    leaves = tf.nest.flatten(structure)  # beside tensors, the values of arguments that are none
    specs = [spec for spec in leaves if isinstance(spec, tf.TensorSpec)]
    inputs = [_of_spec(spec.name or f"input_{n}", spec, said) for n, spec in enumerate(specs)]

    def call(*tensors: Any) -> Any:
        given = iter(tensors)
        filled = [next(given) if isinstance(leaf, tf.TensorSpec) else leaf for leaf in leaves]
        positional, named = tf.nest.pack_sequence_as(structure, filled)
        return concrete(*positional, **named)

    return Function(call, inputs, keep or concrete)


def _of_spec(name: str, spec: Any, said: Mapping[str, InputSpec]) -> Input:
    shape = None if spec.shape.rank is None else spec.shape.as_list()
    dtype = "object" if spec.dtype == tf.string else spec.dtype.name
    return Input(name, dtype, axes(name, shape, said[name].shape if name in said else None))


def _keras(context: Context, model: keras.Model, params: Params) -> Function:
    """A functional or sequential model by its own inputs, any other by its `call`."""
    structure = getattr(model, "_inputs_struct", None)
    known = structure is not None or isinstance(model, keras.Sequential)
    tensors = getattr(model, "inputs", None) if known else None  # a Sequential that is not built yet has none
    if not tensors:
        return _by_parameters(context, lambda *a, **k: model(*a, training=False, **k), params, model.call, keep=model)
    counted = [tensor.name.startswith(UNNAMED) for tensor in tensors]
    names = [
        ("input" if len(tensors) == 1 else f"input_{n}") if unnamed else tensor.name
        for n, (tensor, unnamed) in enumerate(zip(tensors, counted, strict=True))
    ]
    inputs = [
        Input(
            name,
            _dtype(tensor.dtype),
            axes(name, tensor.shape, params.inputs[name].shape if name in params.inputs else None),
        )
        for name, tensor in zip(names, tensors, strict=True)
    ]

    def call(*given: Any) -> Any:
        value = given[0] if structure is None else keras.tree.pack_sequence_as(structure, list(given))
        return model(value, training=False)

    return Function(call, inputs, model)


def _dtype(name: str) -> str:
    return "object" if name == "string" else str(name)


def _shaped(params: Params) -> bool:
    return any(spec.shape is not None for spec in params.inputs.values())


def _by_parameters(
    context: Context,
    call: Callable[..., Any],
    params: Params,
    declared: Callable[..., Any] | None = None,
    keep: Any = None,
) -> Function:
    """A callable whose inputs the pipeline says: each by name, or all as a dictionary, or the only one as it is."""
    missing = [name for name, spec in params.inputs.items() if spec.shape is None]
    if not params.inputs or missing:
        raise StageFailed(
            context.stage,
            f"{params.model} does not say what it takes",
            why=f"no shape for {', '.join(missing)}" if missing else "it has neither a signature nor inputs of its own",
            hint="say it: inputs: {name: {shape: [batch, 8]}}",
        )
    inputs = [Input(name, spec.dtype or "float32", tuple(spec.shape or ())) for name, spec in params.inputs.items()]
    names = [item.name for item in inputs]
    by_name = set(names) <= set(_parameters(declared or call))

    def flat(*tensors: Any) -> Any:
        if by_name:
            return call(**dict(zip(names, tensors, strict=True)))
        return call(tensors[0] if len(tensors) == 1 else dict(zip(names, tensors, strict=True)))

    return Function(flat, inputs, keep)


def _parameters(call: Callable[..., Any]) -> Sequence[str]:
    return list(signature_of(getattr(call, "python_function", call)).parameters)
