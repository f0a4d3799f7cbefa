"""Sizes of dynamic axes at which a model runs, found by running it.

Exports of a hub often name every axis of an input, `[batch_size, num_channels, height, width]`, and run at few sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from orun.core.dynamic_axes import list_batch_axes, list_free
from orun.core.serialization import Record
from orun.errors import UsageError
from orun.scaffold.model_facts import fit_size
from orun.scaffold.recipe import TIMED
from orun.stages._graph.feeds import Input, assign_sizes, list_axes, make_random_values
from orun.stages._graph.sessions import open_model

if TYPE_CHECKING:
    from orun.stages._graph.sessions import Model

MOST_CHANNELS = 4
PATIENCE = 60.0  # seconds for the search

Sizes = Mapping[str, int]


class Role(Record, frozen=True):
    """Role of a dynamic axis."""

    tried: tuple[int, ...]  # the usual sizes first
    second: Callable[[int], int]  # a second size shows that a model takes several


CHANNELS = Role((3, 1), lambda size: size)
IMAGE_SIDES = Role(
    (224, 256, 384, 512, 32, 28, 64, 96, 128, 192, 240, 299, 336, 448, 518, 640, 1024), lambda size: size + 32
)  # fmt: skip
TOKENS = Role((TIMED, 64, 32, 16, 8), lambda size: size // 2)
# Spectrograms: Whisper has 80 or 128 frequencies by 3000 frames, others have frames by frequencies.
SPECTRUM_FIRST = Role((80, 128, 1024, 3000), lambda size: size)
SPECTRUM_LAST = Role((3000, 1024, 128, 80), lambda size: size)
SAMPLES = Role((16000, 4000, 1000), lambda size: size + size // 2)  # of sound: the first is a second of speech


def find_working_sizes(
    path: Path,
    inputs: Sequence[Input],
    outputs: Sequence[str],
    known: Mapping[str, Sequence[int]],
    guessed: Mapping[str, Sequence[int]],
) -> dict[str, tuple[int, ...]]:
    """Return sizes of dynamic axes, by name; empty if the model runs at the known sizes and the guessed ones.

    An axis that can take several sizes gets two. If the model runs at none of the sizes that are tried, or takes too
    long, the result is empty, too.
    """
    roles = {axis: role for axis, role in _guess_roles(inputs).items() if axis not in known}
    if not roles:
        return {}
    try:
        model = open_model(path, outputs)
    except UsageError:  # the first stage says so
        return {}
    if all(_runs(model, inputs, sizes) for sizes in _iter_default_sizes(inputs, {**guessed, **known})):
        return {}
    base = {axis: min(known.get(axis, (1,))) for axis in list_axes(inputs)}
    present = list(dict.fromkeys(roles.values()))
    until = monotonic() + PATIENCE
    for chosen in product(*(role.tried for role in present)):
        by_role = dict(zip(present, chosen, strict=True))
        sizes = {**base, **{axis: by_role[role] for axis, role in roles.items()}}
        if _runs(model, inputs, sizes):
            return _try_second_sizes(model, inputs, sizes, roles)
        if monotonic() > until:
            break
    return {}


def _guess_roles(inputs: Sequence[Input]) -> dict[str, Role]:
    """Return the roles of dynamic axes as far as the types and ranks of inputs tell."""
    roles: dict[str, Role] = {}
    for item in inputs:
        match item.dtype.startswith("int"), item.shape:
            case False, (_, first, second, last) if isinstance(last, int) and last <= MOST_CHANNELS:
                axes = [(first, IMAGE_SIDES), (second, IMAGE_SIDES)]
            case False, (_, first, second, last):
                axes = [(first, CHANNELS), (second, IMAGE_SIDES), (last, IMAGE_SIDES)]
            case False, (_, first, last):
                axes = [(first, SPECTRUM_FIRST), (last, SPECTRUM_LAST)]
            case False, (_, length):
                axes = [(length, SAMPLES)]
            case True, (_, length):
                axes = [(length, TOKENS)]
            case _:
                axes = []
        for axis, role in axes:
            roles |= dict.fromkeys(list_free([[axis]]), role)
    return roles


def _iter_default_sizes(inputs: Sequence[Input], sizes: Mapping[str, Sequence[int]]) -> Iterator[Sizes]:
    """Yield the sizes at which stages compare the model, and those at which it is timed."""
    yield from assign_sizes(inputs, sizes)
    batch = list_batch_axes(item.shape for item in inputs)
    usual = {axis: 1 if axis in batch else TIMED for axis in list_axes(inputs)}
    yield {axis: fit_size(size, sizes.get(axis, ())) for axis, size in usual.items()}


def _try_second_sizes(
    model: Model, inputs: Sequence[Input], sizes: Sizes, roles: Mapping[str, Role]
) -> dict[str, tuple[int, ...]]:
    """Return the size of each axis of these roles, or two if the model runs at both.

    Axes of the same role get both sizes in turn: an image may be wide or high.
    """
    widened: dict[str, tuple[int, ...]] = {}
    for role in dict.fromkeys(roles.values()):
        axes = [axis for axis in roles if roles[axis] is role]
        pair = (sizes[axes[0]], role.second(sizes[axes[0]]))
        mixed = ({axis: pair[(first + place) % 2] for place, axis in enumerate(axes)} for first in range(2))
        both = all(_runs(model, inputs, {**sizes, **changed}) for changed in mixed)
        widened |= dict.fromkeys(axes, tuple(sorted({*pair})) if both else pair[:1])
    return widened


def _runs(model: Model, inputs: Sequence[Input], sizes: Sizes) -> bool:
    """Return whether the model runs on random values at these sizes."""
    import numpy as np

    try:
        model(make_random_values(inputs, sizes, np.random.default_rng(0)))
    except Exception:  # noqa: BLE001 - the errors of ONNX Runtime share no other base class
        return False
    return True
