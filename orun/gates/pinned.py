"""The models of an accepted baseline, pinned in the store: whatever becomes of the file, a collection keeps them."""

from __future__ import annotations

from collections.abc import Mapping

from orun.gates.baseline_file import Accepted
from orun.store.pins import pin, pins, unpin
from orun.store.store import Store


def pin_models(store: Store, pipeline: str, accepted: Mapping[str, Accepted]) -> tuple[str, ...]:
    """Pin the model of each stage that measures one, in the place of what was pinned for the pipeline before.

    Args:
        store: where the models lie; one that is not there, of a stage that an earlier run measured elsewhere, is passed
            over.
        pipeline: its name.
        accepted: what is accepted of its stages, by id.

    Returns:
        The names of the pins.

    Raises:
        StoreError: when the store cannot be written, or a pin was damaged.
    """
    wanted = {_name(pipeline, stage): one.model for stage, one in accepted.items() if one.model}
    whole = {name: model for name, model in wanted.items() if not store.check(model)}
    for name, model in whole.items():
        pin(store, name, model)
    unpin_models(store, pipeline, keep=tuple(wanted))
    return tuple(whole)


def unpin_models(store: Store, pipeline: str, *, keep: tuple[str, ...] = ()) -> None:
    """Give up the pins of a pipeline's baseline, but for those in `keep`."""
    for one in pins(store):
        if one.name.startswith(_name(pipeline, "")) and one.name not in keep:
            unpin(store, one.name)


def _name(pipeline: str, stage: str) -> str:
    return f"baseline of {pipeline}: {stage}"
