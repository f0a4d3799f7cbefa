"""Records of what was done: with a checksum, several to a key, a damaged one is a miss."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from orun.core.metrics import Estimate, Metric
from orun.store import ImplicitDependencies, Store
from orun.store.checksummed_json import ChecksumError, decode_checksummed, encode_checksummed
from tests.facts import components
from tests.store.crash import Disk
from tests.store.support import action, empty, flip, forks, in_child, needs_proc, overwrite, truncate

KEY = "a" * 64


def records(store: Store) -> list[Path]:
    return sorted((store.root / "actions").rglob("*.json"))


def test_a_record_comes_back_as_it_was(store: Store, tmp_path: Path) -> None:
    metrics = {"p50": Metric(0.01, "s", "lower", "timing", Estimate(0.01, 0.009, 0.011)), "nan": Metric(float("inf"))}
    implicit_deps = ImplicitDependencies(
        {"load.py": "1" * 64, "gone.py": ""}, {"data": "2" * 64}, {"numpy": "2.4.6"}, {"HOME": ""}
    )
    put = action(metrics=metrics, implicit_deps=implicit_deps, components=components({"é": "ü\udce9\n"}))
    store.put_action(put)
    assert store.list_actions(KEY) == (put,)
    with Store.open(tmp_path / "store") as other:
        assert other.list_actions(KEY) == (put,)
    assert store.list_actions("b" * 64) == ()


def test_a_record_lies_under_its_key_and_what_it_discovered(store: Store) -> None:
    store.put_action(action())
    store.put_action(action(implicit_deps=ImplicitDependencies({"a.py": "1" * 64}), started_at=200.0))
    assert {path.parent for path in records(store)} == {store.root / "actions" / "aa" / KEY}
    assert len(records(store)) == 2
    assert [stored_action.started_at for stored_action in store.list_actions(KEY)] == [200.0, 100.0]


def test_the_same_discovered_inputs_take_the_place_of_the_old_record(store: Store) -> None:
    store.put_action(action(started_at=100.0))
    assert [stored_action.started_at for stored_action in store.list_actions(KEY)] == [100.0]
    store.put_action(action(started_at=300.0))
    assert [stored_action.started_at for stored_action in store.list_actions(KEY)] == [300.0]
    assert len(records(store)) == 1


def test_a_record_is_json_with_its_seal(store: Store) -> None:
    store.put_action(action())
    (path,) = records(store)
    data = json.loads(path.read_bytes())
    assert data["record"]["components"] == [
        {"kind": "kind", "value": "quantize/dynamic"},
        {"kind": "parameter", "subject": "per_channel", "value": "true"},
    ]
    assert decode_checksummed(path.read_bytes()) == data["record"]


@pytest.mark.parametrize("damage", [flip, truncate, empty])
@pytest.mark.parametrize("again", [False, True])
def test_a_damaged_record_is_a_miss_and_said(store: Store, damage: Callable[[Path], None], again: bool) -> None:
    store.put_action(action())
    store.put_action(action(implicit_deps=ImplicitDependencies({"a.py": "1" * 64}), started_at=50.0))
    newest = next(path for path in records(store) if b'"started_at":100.0' in path.read_bytes())
    if again:
        assert len(store.list_actions(KEY)) == 2
    damage(newest)
    assert [stored_action.started_at for stored_action in store.list_actions(KEY)] == [50.0]
    (kept,) = (store.root / "quarantine").iterdir()
    assert store.drain_notices() == [f"a record of key {KEY} was damaged; moved to quarantine as {kept}"]
    store.put_action(action())
    assert len(store.list_actions(KEY)) == 2


def test_every_flipped_bit_of_a_record_is_seen() -> None:
    content = encode_checksummed({"key": "value", "number": 1.5})
    assert decode_checksummed(content) == {"key": "value", "number": 1.5}
    for position in range(len(content) * 8):
        damaged = bytearray(content)
        damaged[position // 8] ^= 1 << position % 8
        with pytest.raises(ChecksumError):
            decode_checksummed(bytes(damaged))
    for length in range(len(content)):
        with pytest.raises(ChecksumError):
            decode_checksummed(content[:length])
    with pytest.raises(ChecksumError):
        decode_checksummed(content + b" ")


def test_a_record_under_the_wrong_key_does_not_count(store: Store) -> None:
    store.put_action(action())
    (path,) = records(store)
    other = store.root / "actions" / "bb" / ("b" * 64)
    other.mkdir(parents=True)
    path.rename(other / path.name)
    assert store.list_actions("b" * 64) == ()
    assert store.list_actions(KEY) == ()


def test_a_record_of_another_version_does_not_count_and_stays(store: Store) -> None:
    store.put_action(action())
    (path,) = records(store)
    record = decode_checksummed(path.read_bytes()) | {"a field of the future": 1}
    overwrite(path, encode_checksummed(record))
    assert store.list_actions(KEY) == ()
    assert store.drain_notices() == []
    assert path.exists()


def test_the_last_record_of_a_stage(store: Store, tmp_path: Path) -> None:
    assert store.find_latest("bert", "int8") is None
    old, new = action(), action("b" * 64, started_at=200.0)
    for stored_action in (old, new):
        store.put_action(stored_action)
    store.set_latest("bert", "int8", old)
    assert store.find_latest("bert", "int8") == old
    store.set_latest("bert", "int8", new)
    store.set_latest("bert", "a/b[c=1]", old)
    with Store.open(tmp_path / "store") as other:
        assert other.find_latest("bert", "int8") == new
        assert other.find_latest("bert", "a/b[c=1]") == old
        assert other.find_latest("other", "int8") is None


def test_what_is_named_last_already_is_not_written_again(store: Store) -> None:
    store.put_action(action())
    store.set_latest("bert", "int8", action())
    path = store.root / "latest" / "bert" / "int8.json"
    before = path.stat()
    store.set_latest("bert", "int8", action())
    assert path.stat().st_ino == before.st_ino


@pytest.mark.parametrize("damage", [flip, truncate, empty])
def test_a_damaged_pointer_is_a_miss_and_said(store: Store, damage: Callable[[Path], None]) -> None:
    store.put_action(action())
    store.set_latest("bert", "int8", action())
    damage(store.root / "latest" / "bert" / "int8.json")
    assert store.find_latest("bert", "int8") is None
    (kept,) = (store.root / "quarantine").iterdir()
    assert store.drain_notices() == [f"the pointer latest/bert/int8.json was damaged; moved to quarantine as {kept}"]
    store.set_latest("bert", "int8", action())
    assert store.find_latest("bert", "int8") == action()


def test_a_pointer_to_a_record_that_is_gone_is_a_miss(store: Store) -> None:
    store.put_action(action())
    store.set_latest("bert", "int8", action())
    records(store)[0].unlink()
    assert store.find_latest("bert", "int8") is None


@forks
@needs_proc
def test_a_record_that_is_stored_alone_is_there_after_a_power_cut(store: Store) -> None:
    def names_that_may_be_lost() -> list[str]:
        disk = Disk(store.root, 0, power=False)
        store.put_action(action())
        path = store.locate_record(action())
        return [name for name in disk.named if Path(name) in (path, *path.parents)]

    assert in_child(names_that_may_be_lost) == "[]"
