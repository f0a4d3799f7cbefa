"""Keras models, TensorFlow functions and other callables as functions of flat, named inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from orun.stages._graph.feeds import Input
from orun.stages._tf.function import Function
from orun.stages._tf.inputs import Declared, choose_axes
from orun.stages.code import inspect_signature
from orun.stages.contract import Context

UNNAMED = "keras_tensor"  # prefix of the name that Keras gives an input without a name


def wrap(context: Context, model: Any, name: str, declared: Declared) -> Function:
    """Wrap a model that a function returned, or that was read from a file.

    The model is a Keras model, a `tf.Module`, a `tf.function` or another callable.

    Raises:
        StageFailed: when it cannot be called, or its inputs are not known.
    """
    if isinstance(model, keras.Model):
        return _wrap_keras(context, model, name, declared)
    call = model.__call__ if isinstance(model, tf.Module) and callable(model) else model
    if hasattr(call, "structured_input_signature"):
        return wrap_signature(call, declared)
    if (
        hasattr(call, "get_concrete_function")
        and getattr(call, "input_signature", None) is not None
        and all(item.shape is None for item in declared.values())
    ):
        return wrap_signature(call.get_concrete_function(), declared, keep=model)
    if not callable(call):
        raise context.failed(
            f"{name} must return a Keras model or a function of TensorFlow",
            why=f"it returned a {type(model).__name__}",
        )
    return _wrap_callable(context, call, name, declared, keep=model)


def wrap_signature(concrete: Any, declared: Declared, keep: Any = None) -> Function:
    """Wrap a concrete function, which has a signature of its own."""
    structure = concrete.structured_input_signature
    leaves = tf.nest.flatten(structure)  # tensors, and the values of arguments that are no tensors
    specs = [spec for spec in leaves if isinstance(spec, tf.TensorSpec)]
    inputs = [build_input(spec.name or f"input_{n}", spec, declared) for n, spec in enumerate(specs)]

    def call(*tensors: Any) -> Any:
        remaining = iter(tensors)
        filled = [next(remaining) if isinstance(leaf, tf.TensorSpec) else leaf for leaf in leaves]
        positional, named = tf.nest.pack_sequence_as(structure, filled)
        return concrete(*positional, **named)

    return Function(call, inputs, keep or concrete)


def build_input(name: str, tensor: Any, declared: Declared) -> Input:
    """Return an input with the shape and type of a tensor or TensorSpec."""
    shape = None if tensor.shape.rank is None else tensor.shape.as_list()
    dtype = "object" if tensor.dtype == tf.string else tensor.dtype.name
    return Input(name, dtype, choose_axes(name, shape, declared))


def _wrap_keras(context: Context, model: keras.Model, name: str, declared: Declared) -> Function:
    """Wrap a functional or sequential model by its own inputs, any other by its `call`."""
    structure = getattr(model, "_inputs_struct", None)
    known = structure is not None or isinstance(model, keras.Sequential)
    tensors = getattr(model, "inputs", None) if known else None  # a Sequential that is not built yet has none
    if not tensors:
        return _wrap_callable(
            context, lambda *a, **k: model(*a, training=False, **k), name, declared, model.call, keep=model
        )
    names = [
        ("input" if len(tensors) == 1 else f"input_{n}") if tensor.name.startswith(UNNAMED) else tensor.name
        for n, tensor in enumerate(tensors)
    ]
    inputs = [
        Input(
            label,
            "object" if tensor.dtype == "string" else str(tensor.dtype),
            choose_axes(label, tensor.shape, declared),
        )
        for label, tensor in zip(names, tensors, strict=True)
    ]

    def call(*values: Any) -> Any:
        value = values[0] if structure is None else keras.tree.pack_sequence_as(structure, list(values))
        return model(value, training=False)

    outputs = getattr(model, "output_names", [])
    unique = len({*names, *outputs}) == len(names) + len(outputs)  # not where a layer or an input yields several
    return Function(call, inputs, model, outputs if unique else ())


def _wrap_callable(
    context: Context,
    call: Callable[..., Any],
    name: str,
    declared: Declared,
    signature: Callable[..., Any] | None = None,
    *,
    keep: Any,
) -> Function:
    """Wrap a callable whose inputs the pipeline declares: each by name, all as a dictionary, or the only one alone."""
    missing = [label for label, item in declared.items() if item.shape is None]
    if not declared or missing:
        raise context.failed(
            f"{name} does not say what it takes",
            why=f"no shape for {', '.join(missing)}" if missing else "it has neither a signature nor inputs of its own",
            hint="say it: inputs: {name: {shape: [batch, 8]}}",
        )
    inputs = [Input(label, item.dtype or "float32", tuple(item.shape or ())) for label, item in declared.items()]
    names = list(declared)
    declaring = signature or call
    by_name = set(names) <= set(inspect_signature(getattr(declaring, "python_function", declaring)).parameters)

    def call_flat(*tensors: Any) -> Any:
        if by_name:
            return call(**dict(zip(names, tensors, strict=True)))
        return call(tensors[0] if len(tensors) == 1 else dict(zip(names, tensors, strict=True)))

    return Function(call_flat, inputs, keep)
