"""Pins of the models of an accepted baseline: garbage collection keeps them, whatever happens to the file."""

from __future__ import annotations

from collections.abc import Mapping

from orun.gates.baseline_file import Accepted
from orun.store.pins import Pin, list_pins, pin, unpin
from orun.store.store import Store


def pin_models(store: Store, pipeline: str, accepted: Mapping[str, Accepted]) -> tuple[str, ...]:
    """Pin the model of each stage that measures a model, and give up the pins of the last baseline.

    A model that the store lacks, because it was measured on another machine, is passed over.

    Returns:
        The names of the pins.

    Raises:
        StoreError: when the store cannot be written, or a pin was damaged.
    """
    models = {_format_name(pipeline, stage): item.model for stage, item in accepted.items() if item.model}
    intact = {name: model for name, model in models.items() if not store.check(model)}
    for name, model in intact.items():
        pin(store, name, model)
    unpin_models(store, pipeline, keep=tuple(models))
    return tuple(intact)


def unpin_models(store: Store, pipeline: str, *, keep: tuple[str, ...] = ()) -> None:
    """Give up the pins of a pipeline's baseline, but for those in `keep`."""
    for item in list_pins(store):
        if is_of(item, pipeline) and item.name not in keep:
            unpin(store, item.name)


def is_of(pin: Pin, pipeline: str) -> bool:
    """Return whether a pin keeps a model of a pipeline's baseline."""
    return pin.name.startswith(_format_name(pipeline, ""))


def _format_name(pipeline: str, stage: str) -> str:
    return f"baseline of {pipeline}: {stage}"
