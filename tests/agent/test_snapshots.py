"""Snapshots of projects: what a pipeline needs must travel, and only what is new is sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from orun.agent.snapshots import LEFT_OUT, share, take_snapshot
from orun.errors import UsageError
from orun.pipeline import load
from orun.remote.settings import Settings
from orun.store import Store
from tests.agent.support import make_project
from tests.git import commit


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The pipeline file of a project that git knows."""
    return make_project(tmp_path / "project")


def test_a_file_that_a_parameter_names_must_travel(file: Path, store: Store) -> None:
    file.write_text("stages: {import: {uses: convert/onnx, with: {path: data/model.onnx}}}\n")
    (file.parent / "data" / "model.onnx").touch()
    pipeline = load(file)
    with pytest.raises(UsageError) as caught:
        take_snapshot(pipeline, store)
    assert str(caught.value) == (
        "the pipeline needs data/model.onnx, which other machines would not get\n"
        "  git ignores it, and it is not listed in `ship:`\n"
        "  hint: list it in the pipeline file: ship: [data/model.onnx]"
    )
    file.write_text("ship: [data/model.onnx]\n" + file.read_text())
    assert take_snapshot(load(file), store).snapshot.file == "pipeline.yaml"


@pytest.mark.parametrize(
    ("path", "link"), [("model.onnx", "model.onnx"), ("models/model.onnx", "models"), ("all", "all/model.onnx")]
)
def test_a_link_out_of_the_project_does_not_travel(
    file: Path, store: Store, tmp_path: Path, path: str, link: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "model.onnx").touch()
    (file.parent / "model.onnx").symlink_to(outside / "model.onnx")
    (file.parent / "models").symlink_to(outside)
    (file.parent / "all").mkdir()
    (file.parent / "all" / "model.onnx").symlink_to(outside / "model.onnx")
    file.write_text(f"stages: {{import: {{uses: convert/onnx, with: {{path: {path}}}}}}}\n")
    commit(file.parent, "links")
    with pytest.raises(UsageError) as caught:
        take_snapshot(load(file), store)
    assert str(caught.value) == (
        f"the pipeline needs {link}, which other machines cannot get\n"
        "  it is a link that leads out of the project, or to nothing that travels\n"
        "  hint: put the file or folder itself into the project, under a plain name"
    )


def test_a_snapshot_is_a_tree_with_a_list_of_what_stayed(file: Path, store: Store) -> None:
    tree = take_snapshot(load(file, {"seed": "3"}), store)
    assert tree.snapshot.file == "pipeline.yaml"
    assert tree.snapshot.overrides == {"seed": "3"}
    entries = store.read_tree(tree.snapshot.tree)
    assert entries
    assert [entry.path for entry in entries.entries] == [LEFT_OUT, ".gitignore", "pipeline.yaml", "stages.py"]
    assert store.read(entries.entries[0].digest) == b"data/\n"
    assert take_snapshot(load(file), store).snapshot.tree == tree.snapshot.tree


def test_only_what_is_new_is_sent(file: Path, store: Store, tmp_path: Path) -> None:
    settings = Settings(f"file://{tmp_path / 'remote'}", "read-write")
    share(take_snapshot(load(file), store), store, settings)
    objects = tmp_path / "remote" / "objects"
    sent = {path: path.stat().st_mtime_ns for path in objects.rglob("*") if path.is_file()}
    assert len(sent) == 4  # three files, and the list of files; what stayed has the content of .gitignore
    (file.parent / "stages.py").write_text("# other\n" + (file.parent / "stages.py").read_text())
    share(take_snapshot(load(file), store), store, settings)
    later = {path: path.stat().st_mtime_ns for path in objects.rglob("*") if path.is_file()}
    assert len(later) == 6
    assert {path: later[path] for path in sent} == sent


def test_an_emptied_remote_gets_everything_again(file: Path, store: Store, tmp_path: Path) -> None:
    settings = Settings(f"file://{tmp_path / 'remote'}", "read-write")
    tree = take_snapshot(load(file), store)
    share(tree, store, settings)
    (tmp_path / "remote").rename(tmp_path / "old")
    share(tree, store, settings)
    names = [sorted(path.name for path in (tmp_path / at).rglob("*") if path.is_file()) for at in ("old", "remote")]
    assert names[0] == names[1]
