"""The models of a baseline are pinned as far as they are here."""

from __future__ import annotations

from pathlib import Path

from orun.gates.pinned import pin_models, unpin_models
from orun.store import Store
from orun.store.pins import list_pins, pin
from tests.gates.support import accepted
from tests.store.support import add


def test_what_is_not_here_keeps_its_pin_and_what_is_no_longer_accepted_loses_it(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        here, before = add(store, {"model.onnx": b"new"}), add(store, {"model.onnx": b"old"})
        for name in ("baseline of bert: latency", "baseline of bert: gone", "baseline of vision: latency", "mine"):
            pin(store, name, before)
        stages = {"latency": accepted({}, "0" * 64), "size": accepted({}, here), "custom": accepted({}, "")}
        assert pin_models(store, "bert", stages) == ("baseline of bert: size",)
        assert {pin.name: pin.tree for pin in list_pins(store)} == {
            "baseline of bert: latency": before,
            "baseline of bert: size": here,
            "baseline of vision: latency": before,
            "mine": before,
        }
        unpin_models(store, "bert")
        assert sorted(pin.name for pin in list_pins(store)) == ["baseline of vision: latency", "mine"]
