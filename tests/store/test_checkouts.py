"""Checkouts: what people open is exactly what the store holds, or is made so, and nothing of theirs is lost."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from blake3 import blake3

from orun.errors import StoreError
from orun.store import Store
from tests.store.support import (
    DAMAGE,
    add,
    bytes_read,
    content,
    fill,
    flip,
    has_reflinks,
    in_an_image,
    needs_proc,
    object_path,
    replace,
)

FILES = {"model.onnx": b"the proto of a model", "model.data": b"the weights of a model", "sub/info.txt": b"information"}


@pytest.fixture
def digest(store: Store) -> str:
    return add(store, FILES)


@pytest.fixture
def out(store: Store, digest: str) -> Path:
    folder, restored = store.check_out(digest, "bert", "int8")
    assert restored
    return folder


def test_a_checkout_is_where_people_look(store: Store, digest: str, out: Path) -> None:
    assert out == store.root / "out" / "bert" / "int8"
    assert content(out) == FILES
    assert store.check_out(digest, "bert", "int8") == (out, False)
    assert store.drain_notices() == []


@needs_proc
def test_an_intact_checkout_is_not_read(store: Store, tmp_path: Path) -> None:
    big = os.urandom(1 << 20)
    digest = add(store, {"model.onnx": big, "model.data": big + b"."})
    store.check_out(digest, "bert", "int8")
    before = bytes_read()
    for opened in (store, Store.open(tmp_path / "store"), Store.open(tmp_path / "store")):
        assert opened.check(digest) == ()
        assert not opened.check_out(digest, "bert", "int8")[1]
    assert bytes_read() - before < 100_000


def test_the_index_is_only_an_index(store: Store, digest: str, out: Path, tmp_path: Path) -> None:
    store.close()
    shutil.rmtree(store.root / "index")
    with Store.open(tmp_path / "store") as other:
        assert other.check(digest) == ()
        assert other.check_out(digest, "bert", "int8") == (out, False)
        assert other.drain_notices() == []


@pytest.mark.parametrize("removed", ["", "model.data"])
def test_what_was_removed_is_restored(store: Store, digest: str, out: Path, removed: str) -> None:
    (out / removed).unlink() if removed else shutil.rmtree(out)
    assert store.check_out(digest, "bert", "int8") == (out, True)
    assert content(out) == FILES
    assert store.drain_notices() == []


@needs_proc
@pytest.mark.parametrize(("names", "passes"), [(("a.bin",), 0), (("model.onnx", "model.data"), 1)])
def test_restoring_reads_what_is_linked_not_at_all_and_what_is_copied_once(
    store: Store, names: tuple[str, ...], passes: int
) -> None:
    """External data of a model is never hard-linked: it is shared where the file system can, else copied."""
    big = os.urandom(1 << 20)
    digest = add(store, {name: b"proto" if name == "model.onnx" else big for name in names})
    out, _ = store.check_out(digest, "bert", "int8")
    copied = out.joinpath(names[-1]).stat().st_nlink == 1 and not has_reflinks(store)
    assert copied == passes or has_reflinks(store)
    shutil.rmtree(out)
    store.check(digest)  # the links that are gone have changed what is known of their objects
    before = bytes_read()
    assert store.check_out(digest, "bert", "int8") == (out, True)
    read = bytes_read() - before
    assert (out / names[-1]).read_bytes() == big
    assert len(big) * copied <= read < len(big) * copied + 100_000


@pytest.mark.parametrize(("name", "damage"), [*(("model.data", damage) for damage in DAMAGE), ("sub/info.txt", flip)])
def test_a_file_with_an_inode_of_its_own_is_restored(
    store: Store, digest: str, out: Path, name: str, damage: Callable[[Path], None]
) -> None:
    damage(out / name)
    edited = (out / name).read_bytes()
    assert store.check(digest) == ()
    assert store.check_out(digest, "bert", "int8") == (out, True)
    assert content(out) == FILES
    (kept,) = (store.root / "quarantine").iterdir()
    assert kept.read_bytes() == edited
    assert store.drain_notices() == [
        f"out/bert/int8/{name} no longer matches its stored result; moved to quarantine as {kept}"
    ]


@pytest.mark.parametrize("damage", [damage for damage in DAMAGE if damage is not replace])
def test_a_hard_linked_file_that_is_edited_is_no_longer_in_the_store(
    store: Store, damage: Callable[[Path], None]
) -> None:
    digest = add(store, {"report.txt": b"the figures of a run"})
    out, _ = store.check_out(digest, "bert", "latency")
    if (out / "report.txt").stat().st_nlink == 1:
        pytest.skip("this file system has reflinks: the object is not touched")
    damage(out / "report.txt")
    edited = (out / "report.txt").read_bytes()
    assert store.check(digest) == ("report.txt was damaged in the store",)
    assert add(store, {"report.txt": b"the figures of a run"}) == digest  # the stage runs again
    assert store.check_out(digest, "bert", "latency") == (out, True)
    assert content(out) == {"report.txt": b"the figures of a run"}
    assert [kept.read_bytes() for kept in (store.root / "quarantine").iterdir()] == [edited, edited]
    assert len(store.drain_notices()) == 2


def test_a_file_that_was_replaced_leaves_the_object_alone(store: Store) -> None:
    digest = add(store, {"report.txt": b"the figures of a run"})
    out, _ = store.check_out(digest, "bert", "latency")
    replace(out / "report.txt")
    assert store.check(digest) == ()
    assert store.check_out(digest, "bert", "latency") == (out, True)
    assert content(out) == {"report.txt": b"the figures of a run"}


def test_what_people_add_is_put_away(store: Store, digest: str, out: Path) -> None:
    fill(out, {"notes.txt": b"mine", "more/data.bin": b"mine too"})
    (out / "link").symlink_to("/etc/hostname")
    (out / "empty").mkdir()
    assert store.check_out(digest, "bert", "int8") == (out, True)
    assert content(out) == FILES
    assert not (out / "empty").exists()
    kept = sorted((store.root / "quarantine").iterdir())
    assert sorted(path.name.partition("-")[2] for path in kept) == [
        "out%2Fbert%2Fint8%2Flink",
        "out%2Fbert%2Fint8%2Fmore%2Fdata.bin",
        "out%2Fbert%2Fint8%2Fnotes.txt",
    ]
    assert len(store.drain_notices()) == 3


def test_what_people_add_while_a_checkout_is_replaced_is_put_away(
    store: Store, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, rename = add(store, {"model.onnx": b"another model"}), os.rename

    def add_and_rename(source: str, target: str) -> None:
        if source == str(out):
            (out / "notes.txt").write_bytes(b"mine")
        rename(source, target)

    monkeypatch.setattr(os, "rename", add_and_rename)
    assert store.check_out(new, "bert", "int8") == (out, True)
    assert content(out) == {"model.onnx": b"another model"}
    (kept,) = (store.root / "quarantine").iterdir()
    assert kept.read_bytes() == b"mine"
    assert store.drain_notices() == [
        f"out/bert/int8/notes.txt is not part of its stored result; moved to quarantine as {kept}"
    ]


def test_an_empty_folder_that_was_added_goes_without_a_word(store: Store, digest: str, out: Path) -> None:
    (out / "empty").mkdir()
    assert store.check_out(digest, "bert", "int8") == (out, True)
    assert sorted(path.name for path in out.iterdir()) == ["model.data", "model.onnx", "sub"]
    assert store.drain_notices() == []


@pytest.mark.parametrize("obstacle", ["file", "link"])
def test_something_else_in_its_place_is_put_away(store: Store, digest: str, out: Path, obstacle: str) -> None:
    shutil.rmtree(out)
    if obstacle == "file":
        out.write_bytes(b"mine")
    else:
        fill(store.root.parent / "elsewhere", FILES)
        out.symlink_to(store.root.parent / "elsewhere")
    assert store.check_out(digest, "bert", "int8") == (out, True)
    assert not out.is_symlink()
    assert content(out) == FILES
    (notice,) = store.drain_notices()
    assert notice.startswith("out/bert/int8 no longer matches its stored result; moved to quarantine as ")
    assert obstacle == "file" or content(store.root.parent / "elsewhere") == FILES


def test_a_new_tree_takes_the_place_of_the_old_one(store: Store, digest: str, out: Path) -> None:
    new = add(store, {"model.onnx": b"the proto of another model"})
    assert store.check_out(new, "bert", "int8") == (out, True)
    assert content(out) == {"model.onnx": b"the proto of another model"}
    assert store.drain_notices() == []
    assert store.check(digest) == ()
    assert store.check_out(digest, "bert", "int8") == (out, True)
    assert content(out) == FILES


def test_write_protection_taken_away_is_put_back(store: Store, digest: str, out: Path) -> None:
    for path in (out / "model.onnx", out / "model.data"):
        path.chmod(0o666)
    assert store.check(digest) == ()
    assert store.check_out(digest, "bert", "int8") == (out, False)
    assert {path.stat().st_mode & 0o777 for path in (out / "model.onnx", out / "model.data")} == {0o444}
    assert store.check(digest) == ()


def test_a_folder_of_an_image_is_replaced(store: Store, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what was changed by hand put away; its files alone can be moved."""
    in_an_image(monkeypatch, store.root)
    (out / "sub").chmod(0o555)
    replace(out / "model.data")
    edited = content(out)["model.data"]
    newer = add(store, {"model.onnx": b"another model", "sub/deep/info.txt": b"more"})
    assert store.check_out(newer, "bert", "int8") == (out, True)
    assert content(out) == {"model.onnx": b"another model", "sub/deep/info.txt": b"more"}
    (notice,) = store.drain_notices()
    (away,) = (store.root / "quarantine").iterdir()
    assert notice == f"out/bert/int8/model.data is not part of its stored result; moved to quarantine as {away}"
    assert away.read_bytes() == edited


def test_a_write_protected_folder_is_replaced(store: Store, digest: str, out: Path) -> None:
    fill(out, {"notes.txt": b"mine"})
    out.chmod(0o555)
    assert store.check_out(digest, "bert", "int8") == (out, True)
    assert content(out) == FILES


@pytest.mark.parametrize(
    ("stage", "folder"),
    [
        ("int8[per_channel=true]", "int8[per_channel=true]"),
        ("a/b", "a%2Fb"),
        ("..", "%2E."),
        (".hidden", "%2Ehidden"),
        ("", "%"),
        ("50% off", "50%25%20off"),
        ("größe", "gr%C3%B6%C3%9Fe"),
        ("new\nline", "new%0Aline"),
        ("x" * 201, "x" * 120 + "%" + blake3(b"x" * 201).hexdigest()),
    ],
)
def test_any_stage_id_names_a_folder(store: Store, digest: str, stage: str, folder: str) -> None:
    assert store.check_out(digest, "my/pipeline", stage)[0] == store.root / "out" / "my%2Fpipeline" / folder


def test_nobody_sees_a_mixed_folder(store: Store) -> None:
    """A reader that opens the folder once finds all files of one tree in it."""
    names = [f"file{number}" for number in range(20)]
    trees = [add(store, {name: text + name.encode() for name in names}) for text in (b"old ", b"new ")]
    out, _ = store.check_out(trees[0], "bert", "int8")
    seen: list[set[bytes]] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            opened: list[int] = []
            try:
                opened.append(os.open(out, os.O_RDONLY))
                opened += (os.open(name, os.O_RDONLY, dir_fd=opened[0]) for name in names)
                seen.append({os.read(file, 4) for file in opened[1:]})
            except FileNotFoundError:
                continue  # between the old one and the new one, or the old one is being removed
            finally:
                for descriptor in opened:
                    os.close(descriptor)

    reader = threading.Thread(target=look)
    reader.start()
    try:
        for number in range(40):
            store.check_out(trees[(number + 1) % 2], "bert", "int8")
    finally:
        stop.set()
        reader.join()
    assert {len(texts) for texts in seen} <= {1}
    assert store.drain_notices() == []


def test_damage_in_the_store_does_not_reach_the_checkout(store: Store, digest: str, out: Path) -> None:
    object_path(store, blake3(FILES["model.onnx"]).hexdigest()).unlink()
    assert store.check(digest) == ("model.onnx is missing from the store",)
    assert content(out) == FILES


def test_what_was_changed_by_hand_stays_where_it_cannot_be_put_away(store: Store, digest: str, out: Path) -> None:
    replace(out / "model.data")
    edited = (out / "model.data").read_bytes()
    (store.root / "quarantine").rmdir()
    (store.root / "quarantine").touch()
    with pytest.raises(StoreError) as caught:
        store.check_out(digest, "bert", "int8")
    assert caught.value.problem == "cannot check out bert/int8: not a directory"
    assert (out / "model.data").read_bytes() == edited
    (store.root / "quarantine").unlink()
    (store.root / "quarantine").mkdir()
    assert store.check_out(digest, "bert", "int8") == (out, True)
    (kept,) = (store.root / "quarantine").iterdir()
    assert kept.read_bytes() == edited
