"""The layout on disk, and what happens with one that is not ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import orun.store
from orun.errors import StoreError, UsageError
from orun.store import Store
from orun.store.layout import FOLDERS
from tests.store.support import add


def test_a_new_store_has_the_documented_folders(store: Store) -> None:
    assert sorted(path.name for path in store.root.iterdir()) == [
        ".gitignore", "VERSION", "actions", "index", "latest", "locks", "objects", "out", "pins", "quarantine", "runs",
        "tmp",
    ]  # fmt: skip
    assert (store.root / "VERSION").read_text() == "orun store, layout 1, blake3\n"
    assert (store.root / ".gitignore").read_text() == "*\n!README.md\n"


def test_every_folder_is_described(store: Store) -> None:
    text = (Path(orun.store.__file__).parents[2] / "artifacts" / "README.md").read_text(encoding="utf-8")
    missing = [path.name for path in store.root.iterdir() if f"`{path.name}" not in text]
    assert missing == [".gitignore"]


def test_a_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Store.open(Path("some/store")) as store:
        monkeypatch.chdir("/")
        assert store.root == tmp_path / "some" / "store"
        assert store.check(add(store, {"a": b"1"})) == ()


def test_the_readme_and_gitignore_of_a_project_stay(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("objects/\n")
    with Store.open(tmp_path):
        assert (tmp_path / ".gitignore").read_text() == "objects/\n"


@pytest.mark.parametrize(
    ("names", "holds"),
    [
        (["notes.txt"], "notes.txt"),
        (["runs/1/weights.pt"], "runs"),
        (["VERSION"], "VERSION"),
        (["objects/1", "src/a.py", "setup.py", "README.md"], "objects and 2 more"),
        (["objects/ab/1", "src/a.py", "setup.py", "README.md"], "setup.py and 1 more"),
        (["objects/mine.txt"], "objects"),
        (["objects/mine.txt", "out/p/w/mine.txt", "locks/mine.txt"], "locks and 2 more"),
        (["objects/ab/1", "objects/mine.txt", "out/p/w/mine.txt"], "objects and 1 more"),
        (["objects/AB/1", "out/p/w/mine.txt"], "objects and 1 more"),
        (["objects", "out/p/w/mine.txt"], "objects and 1 more"),
        (["out", "README.md"], "out"),
        ([".git/config", ".gitignore"], ".git"),
    ],
)
def test_a_folder_with_something_else_is_refused(tmp_path: Path, names: list[str], holds: str) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("1.2.3\n")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError) as caught:
        Store.open(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path} is no store, and not empty\n  it holds {holds}\n"
        "  hint: name a store, an empty folder or a new one: --store DIR"
    )
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="file is a file, so no store can be there"):
        Store.open(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_an_empty_folder_for_objects_makes_no_store(tmp_path: Path) -> None:
    (tmp_path / "objects").mkdir()
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="is no store, and not empty\n  it holds locks\n"):
        Store.open(tmp_path)
    assert (tmp_path / "locks" / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize("made_entries", range(1, 10))
def test_a_store_whose_making_was_cut_off_is_made(tmp_path: Path, made_entries: int) -> None:
    for name in FOLDERS[:made_entries]:
        (tmp_path / name).mkdir()
    (tmp_path / "VERSION.17-0123456789ab").write_text("orun st")
    Store.open(tmp_path).close()
    assert (tmp_path / "VERSION").exists()


def test_a_version_that_is_a_pipe_is_not_waited_for(store: Store) -> None:
    (store.root / "VERSION").unlink()
    os.mkfifo(store.root / "VERSION")
    with pytest.raises(StoreError) as caught:
        Store.open(store.root)
    assert str(caught.value) == (
        f"cannot open the store: not a regular file\n  {store.root / 'VERSION'}: Not a regular file\n"
        f"  hint: Look at what is there: ls -ld {store.root / 'VERSION'}"
    )


@pytest.mark.parametrize("version", ["orun store, layout 2, blake3\n", "\x00\xff garbage"])
def test_an_unknown_layout_is_an_error(store: Store, version: str) -> None:
    data = version.encode("latin-1")
    (store.root / "VERSION").write_bytes(data)
    with pytest.raises(StoreError) as caught:
        Store.open(store.root)
    assert str(caught.value) == (
        f"the store {store.root} has a layout that this version of orun does not know\n"
        f"  {store.root / 'VERSION'} says {data!r} instead of b'orun store, layout 1, blake3\\n'\n"
        "  hint: Use the version of orun that made it, or put it aside and begin a new one:\n"
        f"  hint: mv {store.root} {store.root}.old"
    )


@pytest.mark.parametrize("data", [b"", b"orun store, layou", bytes(29)], ids=["empty", "cut off", "zeros"])
def test_a_damaged_version_is_no_other_layout(store: Store, data: bytes) -> None:
    """As after a power cut, or from a cache that was restored in part."""
    digest = add(store, {"a": b"1"})
    version = store.root / "VERSION"
    version.write_bytes(data)
    with pytest.raises(StoreError) as caught:
        Store.open(store.root)
    assert str(caught.value) == (
        f"{version} was damaged\n"
        f"  it says {data!r} instead of b'orun store, layout 1, blake3\\n'\n"
        f"  hint: Remove it, and the next run writes it anew and checks what is there: rm {version}"
    )
    version.unlink()
    assert Store.open(store.root).check(digest) == ()


def test_a_lost_version_and_lost_folders_are_made_again(store: Store) -> None:
    digest = add(store, {"a": b"1"})
    store.close()
    (store.root / "VERSION").unlink()
    (store.root / "tmp").rmdir()
    (store.root / "locks").rmdir()
    with Store.open(store.root) as other:
        assert other.check(digest) == ()
        with other.build_key_lock("a" * 64) as lock:
            assert lock.try_acquire()


def test_a_moved_store_is_whole(store: Store, tmp_path: Path) -> None:
    digest = add(store, {"a": b"1"})
    store.check_out(digest, "p", "s")
    store.close()
    store.root.rename(tmp_path / "elsewhere")
    with Store.open(tmp_path / "elsewhere") as other:
        assert other.check(digest) == ()
        assert other.check_out(digest, "p", "s") == (tmp_path / "elsewhere" / "out" / "p" / "s", False)


def test_processes_that_make_it_at_the_same_time_agree(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from orun.store import Store; Store.open(Path(sys.argv[1]))"
    command = [sys.executable, "-c", code, str(tmp_path / "store")]
    makers = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(4)]
    assert [(maker.communicate()[1], maker.returncode) for maker in makers] == [(b"", 0)] * 4
    assert len(list((tmp_path / "store").iterdir())) == 12


def test_the_public_names() -> None:
    assert orun.store.__all__ == sorted(orun.store.__all__)
    assert [name for name in orun.store.__all__ if not hasattr(orun.store, name)] == []
