from __future__ import annotations

import os
from pathlib import Path

import pytest

from orun.errors import UsageError
from orun.pipeline import load
from orun.pipeline.files import MAX_FILES, Files, merge
from orun.pipeline.nodes import find, plain
from orun.pipeline.problems import Problems
from tests.pipeline.support import EXPORT, complaint, mapping, write


def test_a_merge_goes_key_by_key_and_the_top_wins(tmp_path: Path) -> None:
    base = mapping(tmp_path, "a: {x: 1, y: [1, 2]}\nb: text\nc: {k: 1}\n")
    top = mapping(tmp_path, "a: {y: [3], z: 4}\nb: {now: a mapping}\nd: new\n")
    assert plain(merge(base, top)) == {
        "a": {"x": 1, "y": [3], "z": 4},
        "b": {"now": "a mapping"},
        "c": {"k": 1},
        "d": "new",
    }
    assert list(plain(merge(base, top))) == ["a", "b", "c", "d"]


def test_positions_are_those_of_the_file_where_a_key_stands(tmp_path: Path) -> None:
    base = write(tmp_path, f"stages:\n{EXPORT}  int8: {{uses: quantize/dynamic, needs: export}}\n", "base.yaml")
    file = write(tmp_path, "extends: base.yaml\nstages:\n  int8:\n    with: {per_channel: true}\n")
    root = Files(Problems()).read(file)
    assert root is not None
    assert find(root, ("stages", "int8", "uses"))[1].file == str(base)
    assert find(root, ("stages", "int8", "with", "per_channel"))[1].position.file == str(file)
    assert load(file).stage("int8").position.file == str(file)


def test_the_later_of_several_bases_wins_and_every_file_is_a_source(tmp_path: Path) -> None:
    write(tmp_path, f"seed: 1\nname: one\nstages:\n{EXPORT}", "one.yaml")
    write(tmp_path, "seed: 2\n", "two.yaml")
    file = write(tmp_path, "extends: [one.yaml, two.yaml]\n")
    pipeline = load(file)
    assert (pipeline.seed, pipeline.name) == (2, "one")
    assert sorted(Path(name).name for name in pipeline.sources) == ["one.yaml", "p.yaml", "two.yaml"]


def test_two_files_may_extend_the_same_third(tmp_path: Path) -> None:
    write(tmp_path, f"stages:\n{EXPORT}", "base.yaml")
    write(tmp_path, "extends: base.yaml\nseed: 1\n", "left.yaml")
    write(tmp_path, "extends: base.yaml\nname: right\n", "right.yaml")
    pipeline = load(write(tmp_path, "extends: [left.yaml, right.yaml]\n"))
    assert (pipeline.seed, pipeline.name) == (1, "right")


def test_a_long_chain_of_files(tmp_path: Path) -> None:
    for number in range(100):
        write(tmp_path, f"extends: f{number + 1}.yaml\n", f"f{number}.yaml")
    write(tmp_path, f"stages:\n{EXPORT}", "f100.yaml")
    assert f"more than {MAX_FILES} files extend one another" in complaint(tmp_path, "extends: f0.yaml\n")


def test_a_base_that_cannot_be_parsed_is_told_at_its_own_place(tmp_path: Path) -> None:
    write(tmp_path, "stages: [", "base.yaml")
    told = complaint(tmp_path, "extends: base.yaml\n")
    assert told.startswith("base.yaml:1:9: error: a value is missing here")


def test_mistakes_of_all_files_come_together(tmp_path: Path) -> None:
    write(tmp_path, "seed: 1\nseed: 2\n", "base.yaml")
    told = complaint(tmp_path, f"extends: base.yaml\nname: a b\nstages:\n{EXPORT}")
    assert [line.partition(" error: ")[0] for line in told.splitlines() if " error: " in line] == [
        "base.yaml:2:1:",
        "p.yaml:2:7:",
    ]


def test_paths_of_a_base_in_another_folder_are_relative_to_it(tmp_path: Path) -> None:
    write(tmp_path / "shared", f"vars: {{code: code.py}}\nstages:\n{EXPORT}", "base.yaml")
    file = write(
        tmp_path,
        "extends: shared/base.yaml\nstages:\n  accuracy:\n    uses: measure/accuracy\n    needs: export\n"
        '    with: {dataset: code.py:pairs, metrics: ["${vars.code}:load"]}\n',
    )
    pipeline = load(file)
    assert pipeline.stage("export").params["path"] == "shared/model.onnx"
    assert pipeline.stage("accuracy").params["dataset"] == "code.py:pairs"
    # Within text it is the text that is a path, and this file wrote it.
    assert pipeline.stage("accuracy").params["metrics"] == ["code.py:load"]


def test_absolute_paths_stay(tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    write(folder, "")
    file = write(tmp_path, f"stages:\n  export: {{uses: convert/onnx, with: {{path: {folder}/model.onnx}}}}\n")
    (reference,) = load(file).stage("export").references
    assert reference.path == f"{folder}/model.onnx"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "stages: {}").chmod(0)
    with pytest.raises(UsageError, match="Permission denied"):
        load(Path("p.yaml"))
