"""Warnings about a dataset that does not suit its models well, though it may be right."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import chain

import numpy as np
from blake3 import blake3

from orun.measure.accuracy.names import MODEL, format_title
from orun.measure.dataset import Array, Dataset

MANY = 0.05  # share of duplicate examples from which a warning is due: most data has a few


def warn_of_unused_inputs(
    model_inputs: Mapping[str, Collection[str]], dataset: Dataset, *, has_columns: bool = False
) -> Iterator[str]:
    """Yield a sentence for each input of a dataset that the model under test does not have.

    Args:
        model_inputs: the names of the inputs of each model, by its role.
        dataset: the examples.
        has_columns: whether they are columns of a file, any of which `labels` can name.
    """
    for name in dataset.inputs:
        roles = [role for role, names in model_inputs.items() if name in names]
        if not roles:
            known = ", ".join(dict.fromkeys(chain.from_iterable(model_inputs.values())))
            reason = f"no model has such an input (inputs: {known})"
        elif MODEL not in roles:
            reason = f"only the {format_title(roles[0])} has such an input"
        else:
            continue
        may_be_labels = has_columns and dataset.labels is None and np.ndim(dataset.inputs[name][0]) == 0
        hint = f"; if these are the labels, say so beside its path: `labels: {name}`" if may_be_labels else ""
        yield f"the model is not fed {name}, which the dataset has: {reason}{hint}"


def warn_of_duplicates(dataset: Dataset) -> str:
    """Return a sentence on examples that equal others, label and all; empty if they are few."""
    copies = len(dataset) - len({_hash_example(dataset, number) for number in range(len(dataset))})
    if copies < MANY * len(dataset):
        return ""
    return (
        f"{copies} of {len(dataset)} examples repeat other examples, label and all. Each counts as evidence, so "
        "intervals are too narrow if these are copies and not independent observations: leave copies out"
    )


def _hash_example(dataset: Dataset, number: int) -> bytes:
    """Return a digest of an example's inputs, fields and label."""
    hasher = blake3()
    parts = [*dataset.inputs.items(), *dataset.fields.items()]
    if dataset.labels is not None:
        parts.append(("label", dataset.labels))
    for name, values in parts:
        value = np.asarray(values[number])
        hasher.update(f"{name} {value.dtype} {value.shape}\0".encode())
        hasher.update(_to_bytes(value))
    return hasher.digest()


def _to_bytes(value: Array) -> bytes:
    return repr(value.tolist()).encode() if value.dtype == object else value.tobytes()
