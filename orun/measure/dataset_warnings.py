"""Warnings about a dataset that is odd for the models run on it, though not surely wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import chain

import numpy as np
from blake3 import blake3

from orun.measure.accuracy.names import MODEL
from orun.measure.dataset import Array, Dataset

MANY = 0.05  # share of examples that repeat others from which that is told: a few coincide in most data


def unfed(taken: Mapping[str, Collection[str]], dataset: Dataset) -> Iterator[str]:
    """A sentence for each input of a dataset that the model under test does not take.

    Args:
        taken: the names of the inputs of each model, by its role.
        dataset: the examples.
    """
    for name in dataset.inputs:
        roles = [role for role, names in taken.items() if name in names]
        if not roles:
            known = ", ".join(dict.fromkeys(chain.from_iterable(taken.values())))
            told = f"none takes it, but {known}"
        elif MODEL not in roles:
            told = f"the {roles[0]} takes it"
        else:
            continue
        yield f"the model is not fed {name}, which the dataset has: {told}"


def repeated(dataset: Dataset) -> str:
    """A sentence on examples that are the same as others, label and all; empty where they are few."""
    copies = len(dataset) - len({_digest(dataset, number) for number in range(len(dataset))})
    if copies < MANY * len(dataset):
        return ""
    return (
        f"{copies} of {len(dataset)} examples repeat others, label and all, and each counts as evidence: where they "
        "were copied, and not met so often, intervals are narrower than the data can tell, so leave the copies out"
    )


def _digest(dataset: Dataset, number: int) -> bytes:
    """Of an example with all that is known of it."""
    hasher = blake3()
    known = [*dataset.inputs.items(), *dataset.fields.items()]
    if dataset.labels is not None:
        known.append(("label", dataset.labels))
    for name, values in known:
        value = np.asarray(values[number])
        hasher.update(f"{name} {value.dtype} {value.shape}\0".encode())
        hasher.update(_bytes(value))
    return hasher.digest()


def _bytes(value: Array) -> bytes:
    return repr(value.tolist()).encode() if value.dtype == object else value.tobytes()
