from __future__ import annotations

import os
from pathlib import Path

import pytest

from orun.errors import PipelineError, UsageError
from orun.pipeline import load
from orun.pipeline.files import MAX_CHAIN, MAX_FILES, Files, merge
from orun.pipeline.nodes import find, to_plain
from orun.pipeline.problems import Problems
from tests.pipeline.support import EXPORT, complaint, mapping, write


def test_a_merge_goes_key_by_key_and_the_top_wins(tmp_path: Path) -> None:
    base = mapping(tmp_path, "a: {x: 1, y: [1, 2]}\nb: text\nc: {k: 1}\n")
    top = mapping(tmp_path, "a: {y: [3], z: 4}\nb: {now: a mapping}\nd: new\n")
    assert to_plain(merge(base, top)) == {
        "a": {"x": 1, "y": [3], "z": 4},
        "b": {"now": "a mapping"},
        "c": {"k": 1},
        "d": "new",
    }
    assert list(to_plain(merge(base, top))) == ["a", "b", "c", "d"]


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


def test_each_file_is_read_once_however_many_extend_it(tmp_path: Path) -> None:
    """Going through all ways down to the last of them would take days."""
    levels = 30
    for level in range(levels):
        both = f"extends: [left{level + 1}.yaml, right{level + 1}.yaml]\n"
        for side in ("left", "right"):
            write(tmp_path, f"{both}vars: {{{side}: {level}}}\n", f"{side}{level}.yaml")
    for side in ("left", "right"):
        write(tmp_path, f"stages:\n{EXPORT}", f"{side}{levels}.yaml")
    root = Files(Problems()).read(write(tmp_path, "extends: [left0.yaml, right0.yaml]\n"))
    assert root is not None
    assert to_plain(root)["vars"].keys() == {"left", "right"}


def test_a_loop_behind_a_file_that_several_extend_is_told_once(tmp_path: Path) -> None:
    write(tmp_path, "extends: loop.yaml\n", "left.yaml")
    write(tmp_path, "extends: loop.yaml\n", "right.yaml")
    write(tmp_path, "extends: left.yaml\n", "loop.yaml")
    assert complaint(tmp_path, "extends: [left.yaml, right.yaml]\n") == (
        "loop.yaml:1:10: error: these files extend one another in a loop: left.yaml -> loop.yaml -> left.yaml\n"
        "    1 | extends: left.yaml\n"
        "      |          ^^^^^^^^^"
    )


def test_a_file_that_is_extended_twice_is_refused(tmp_path: Path) -> None:
    write(tmp_path, f"stages:\n{EXPORT}", "base.yaml")
    assert complaint(tmp_path, "extends: [base.yaml, base.yaml]\n") == (
        "p.yaml:1:22: error: 'base.yaml' is named twice\n"
        "    1 | extends: [base.yaml, base.yaml]\n"
        "      |                      ^^^^^^^^^\n"
        "  expected: each file once"
    )


def test_so_many_files_are_extended_and_no_more(tmp_path: Path) -> None:
    """A file has as many names as there are ways to it through links: their number is bounded, too."""
    for number in range(300):
        (tmp_path / f"f{number}.yaml").write_text("seed: 1\n")
    message = complaint(tmp_path, f"extends: [{', '.join(f'f{number}.yaml' for number in range(300))}]\n")
    assert message.splitlines()[0] == f"p.yaml:1:2706: error: more than {MAX_FILES} files are extended"


def test_all_files_together_hold_so_much(tmp_path: Path) -> None:
    for number in range(2):
        write(tmp_path, f"vars: {{v{number}: [{'1, ' * 50_000}]}}\n", f"v{number}.yaml")
    message = complaint(tmp_path, "extends: [v0.yaml, v1.yaml]\n")
    assert message.splitlines()[0] == (
        "v1.yaml:1:1: error: the files that are extended hold more than 100000 values in all"
    )


def test_a_long_chain_of_files_is_refused(tmp_path: Path) -> None:
    for number in range(100):
        write(tmp_path, f"extends: f{number + 1}.yaml\n", f"f{number}.yaml")
    write(tmp_path, f"stages:\n{EXPORT}", "f100.yaml")
    assert f"more than {MAX_CHAIN} files extend one another" in complaint(tmp_path, "extends: f0.yaml\n")


def test_a_base_that_cannot_be_parsed_is_told_at_its_own_place(tmp_path: Path) -> None:
    write(tmp_path, "stages: [", "base.yaml")
    message = complaint(tmp_path, "extends: base.yaml\n")
    assert message.startswith("base.yaml:1:9: error: a value is missing here")


def test_mistakes_of_all_files_come_together(tmp_path: Path) -> None:
    write(tmp_path, "seed: 1\nseed: 2\n", "base.yaml")
    message = complaint(tmp_path, f"extends: base.yaml\nname: a b\nstages:\n{EXPORT}")
    assert [line.partition(" error: ")[0] for line in message.splitlines() if " error: " in line] == [
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


def test_a_path_that_goes_by_a_folder_above_is_suggested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths are often written by the folder in which orun is called."""
    for folder in ("models", "pipelines"):
        (tmp_path / folder).mkdir()
    for name in ("models/net.onnx", "ops.py"):
        (tmp_path / name).touch()
    file = tmp_path / "pipelines" / "p.yaml"
    file.write_text(
        "stages:\n  import: {uses: convert/onnx, with: {path: models/net.onnx}}\n  count: {uses: './ops.py:count'}\n"
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PipelineError) as caught:
        load(file)
    assert [problem.suggestion for problem in caught.value.problems] == ["../models/net.onnx", "../ops.py:count"]


@pytest.mark.parametrize(
    ("names", "pipeline"), [(("p.yaml", "p.yml"), "p.yaml"), (("p.yml",), "p.yml"), ((), "p.yaml")]
)
def test_a_baseline_is_no_pipeline(
    names: tuple[str, ...], pipeline: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("p.baseline.json", *names):
        (tmp_path / name).write_text("{}")
    with pytest.raises(UsageError) as caught:
        load(Path("p.baseline.json"))
    assert (caught.value.problem, caught.value.hint) == (
        f"p.baseline.json is the baseline of {pipeline}",
        f"orun {pipeline}",
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "stages: {}").chmod(0)
    with pytest.raises(UsageError, match="Permission denied"):
        load(Path("p.yaml"))


@pytest.mark.parametrize("to", ["lp", "gone", "lp/below"])
def test_a_link_that_leads_nowhere_is_no_misspelt_name(tmp_path: Path, to: str) -> None:
    """It was asked whether the very same name was meant."""
    for name in ("lp", "lp.py"):
        (tmp_path / name).symlink_to(to if to != "lp" else name)
    message = complaint(
        tmp_path,
        "environments: {e: {requirements: lp}}\n"
        "stages:\n"
        "  a: {uses: convert/onnx, with: {path: lp}}\n"
        "  b: {uses: './lp.py:f'}\n"
        "  c: {uses: convert/torch, with: {model: 'lp.py:f', inputs: {}, outputs: [y]}}\n",
    )
    why = "No such file or directory" if to == "gone" else "Too many levels of symbolic links"
    leads, code = ("lp", "lp.py") if to == "lp" else (to, to)
    assert [line.partition("error: ")[2] for line in message.splitlines() if "error:" in line] == [
        f"cannot read 'lp': {why}",
        f"'lp' is a link to '{leads}', which leads nowhere",
        f"'./lp.py' is a link to '{code}', which leads nowhere",
        f"'lp.py' is a link to '{code}', which leads nowhere",
    ]
    assert "did you mean" not in message
    assert f"cannot read 'lp': {why}" in complaint(tmp_path, "extends: lp\n")
