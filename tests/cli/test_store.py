"""orun store: statistics, verification, pins and collections, on the stores of real runs."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from orun.core.serialization import replace
from orun.stages.release._manifest import MANIFEST
from orun.store import Store
from orun.store.actions import Actions
from orun.text.units import show
from tests.store.support import flip, object_path

from .conftest import CommandLine, steady


def run(orun: CommandLine, text: str) -> str:
    """Run the pipeline with another text; the digest of what `write` made."""
    shown = orun("words.yaml", "--json", "--set", f"stages.write.with.text={text}")
    assert shown.code == 0, shown.err
    stages: list[dict[str, str]] = json.loads(shown.out)["stages"]
    return stages[0]["tree"]


def collected(orun: CommandLine, *options: str) -> dict[str, Any]:
    """What a collection removed, by the digests of the artifacts."""
    shown = orun("store", "gc", "--json", *options)
    assert shown.code == 0, shown.err
    document: dict[str, Any] = json.loads(shown.out)
    return document | {"trees": {item["tree"] for item in document["removed"] if item["stage"] == "write"}}


def test_there_must_be_a_store(orun: CommandLine, project: Path) -> None:
    shown = orun("store", "stats")
    assert (shown.code, shown.err) == (
        2,
        "error: there is no store at artifacts\n  hint: name another: --store DIR\n",
    )
    assert not (project / "artifacts").exists()


def test_a_store_of_a_project_below_is_named(orun: CommandLine, project: Path) -> None:
    """As of pipelines with a `pyproject.toml` of their own."""
    (project / "my pipelines").mkdir()
    run(orun, "a b c")
    (project / "artifacts").rename(project / "my pipelines" / "artifacts")
    hint = "name another: --store 'my pipelines/artifacts'"
    assert orun("diff").err == f"error: there is no store at artifacts\n  hint: {hint}\n"
    assert orun("store", "stats", "--store", "none").err == (
        "error: there is no store at none\n  hint: name another: --store DIR\n"
    )


def test_how_much_is_in_it(orun: CommandLine, project: Path) -> None:
    run(orun, "a b c")
    run(orun, "a b c")
    document = json.loads(orun("store", "stats", "--json").out)
    assert document["store"] == str(project / "artifacts")
    assert (document["runs"], document["records"]) == (2, 2)
    assert document["folders"]["objects"]["files"] == 4  # the text, the lists of files of two stages, an empty log
    assert document["size"] == sum(folder["size"] for folder in document["folders"].values())
    *_, last = orun("store", "stats").out.splitlines()
    assert last.startswith("artifacts: 2 results of stages, 2 runs, ")


def test_a_store_that_is_whole_and_one_that_is_not(orun: CommandLine, project: Path) -> None:
    tree = run(orun, "a b c")
    shown = orun("store", "verify")
    assert (shown.code, steady(shown.out)) == (0, "4 objects (202 B) and 2 records read: OK\n")
    damaged = project / "artifacts" / "objects" / tree[:2] / tree[2:]
    flip(damaged)
    shown = orun("store", "verify")
    assert shown.code == 1
    first, second, last = shown.out.splitlines()
    assert first.startswith(f"object {tree} was damaged; moved to quarantine as {project}/artifacts/quarantine/")
    assert second == "the artifact of words/write: its list of files is missing or was damaged"
    assert last.endswith("and 2 records read: 2 problems; the next run makes again what it needs of it")
    document = json.loads(orun("store", "verify", "--json").out)
    assert (document["ok"], document["problems"]) == (False, [second])
    assert run(orun, "a b c") == tree
    assert orun("store", "verify").code == 0


def test_a_dry_run_says_what_and_how_much_and_removes_nothing(orun: CommandLine, project: Path) -> None:
    old = run(orun, "the old text")
    run(orun, "the new text")
    shown = orun("store", "gc", "--runs", "1", "--dry-run")
    assert steady(shown.out) == (
        f"stage  artifact  size  last used\nwords/write  {old[:12]}  12 B  just now\n\n"
        "2 objects (173 B) would go, 4 objects (210 B) would stay\n"
    )
    assert collected(orun, "--runs", "1", "--dry-run")["trees"] == {old}
    shown = orun("store", "gc", "--runs", "1")
    assert shown.out.endswith("\n2 objects (173 B) removed, 4 objects (210 B) stay\n")
    assert orun("store", "gc", "--runs", "1").out == "nothing to remove; 4 objects (210 B) stay\n"
    assert (
        json.loads(orun("plan", "words.yaml", "--json", "--set", "stages.write.with.text=the new text").out)["steps"][
            0
        ]["action"]
        == "cached"
    )
    assert (project / "artifacts" / "out" / "words" / "write" / "text.txt").read_text() == "the new text"


def test_runs_pins_size_and_age_keep(orun: CommandLine, project: Path) -> None:
    del project
    pinned, old, new = (run(orun, text) for text in ("the pinned text", "the old text", "the new text"))
    assert orun("store", "pin", "mine", pinned[:10]).out == f"pinned {pinned[:12]} as mine\n"
    assert collected(orun, "--runs", "2", "--dry-run")["trees"] == set()
    assert collected(orun, "--runs", "0", "--dry-run")["trees"] == {old, new}
    assert collected(orun, "--runs", "0", "--max-age", "1d", "--dry-run")["trees"] == set()
    assert collected(orun, "--runs", "0", "--max-age", "0", "--dry-run")["trees"] == {old, new}
    assert collected(orun, "--runs", "0", "--max-size", "1kB", "--dry-run")["trees"] == set()
    assert collected(orun, "--runs", "0", "--max-size", "400B", "--dry-run")["trees"] == {old}
    document = collected(orun, "--runs", "1")
    assert document["trees"] == {old}
    assert [pin["name"] for pin in document["kept"]["pins"]] == ["mine"]
    assert orun("store", "unpin", "mine").out == "unpinned mine\n"
    assert collected(orun, "--runs", "1")["trees"] == {pinned}


def test_folders_of_old_runs_go_and_a_dry_run_names_them(orun: CommandLine, project: Path) -> None:
    for text in ("the first text", "the second text", "the third text", "the fourth text"):
        run(orun, text)
        if "second" in text:
            accepted = orun("baseline", "accept", "words.yaml", "--json", "--set", f"stages.write.with.text={text}")
    folders = sorted((project / "artifacts" / "runs").iterdir())
    assert json.loads(accepted.out)["run"] == folders[1].name
    assert orun("store", "unpin", "baseline of words: count").code == 0
    settle(project)
    gone = [folders[0], folders[2]]
    sizes = [sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) for folder in gone]
    shown = orun("store", "gc", "--runs", "1", "--dry-run")
    total = f"2 folders of runs ({show(sum(sizes), 'B')})"
    assert shown.out.endswith(f"\n4 objects (350 B) and {total} would go, 6 objects (389 B) would stay\n")
    for folder, size in zip(gone, sizes, strict=True):
        assert f"{folder.name}  {show(size, 'B')}\n" in re.sub(r" {2,}", "  ", shown.out)
    rows = [{"run": folder.name, "size": size} for folder, size in zip(gone, sizes, strict=True)]
    assert collected(orun, "--runs", "1", "--dry-run")["runs"] == rows
    assert collected(orun, "--runs", "1", "--max-age", "1d", "--dry-run")["runs"] == []
    assert collected(orun, "--runs", "1")["runs"] == rows
    assert sorted((project / "artifacts" / "runs").iterdir()) == [folders[1], folders[3]]
    assert orun("diff", folders[0].name, "last").err.startswith(f"error: there is no run '{folders[0].name}'\n")
    assert orun("diff", folders[1].name, "last").code == 0
    (project / "words.baseline.json").unlink()
    assert [item["run"] for item in collected(orun, "--runs", "1")["runs"]] == [folders[1].name]


def settle(project: Path) -> None:
    """Let every run have ended more than an hour ago."""
    for folder in (project / "artifacts" / "runs").iterdir():
        os.utime(folder, (time.time() - 4000,) * 2)


def test_the_run_that_tells_where_a_baseline_is_stays(orun: CommandLine, project: Path) -> None:
    """Another file with a pipeline of the same name has run since, as in another worktree."""
    model = run(orun, "the second text")
    assert orun("baseline", "accept", "words.yaml", "--set", "stages.write.with.text=the second text").code == 0
    assert orun("store", "unpin", "baseline of words: count").code == 0
    (first,) = (project / "artifacts" / "runs").iterdir()
    baseline = project / "words.baseline.json"
    baseline.write_text(baseline.read_text().replace(first.name, "elsewhere"))
    (project / "other.yaml").write_text(f"name: words\n{(project / 'words.yaml').read_text()}")
    assert orun("other.yaml", "--set", "stages.write.with.text=the fourth text").code == 0
    settle(project)
    for _ in range(2):
        document = collected(orun, "--runs", "1")
        assert (document["runs"], document["trees"]) == ([], set())
        assert [root["tree"] for root in document["kept"]["roots"]] == [model]


def test_a_quantity_that_is_none(orun: CommandLine, project: Path) -> None:
    run(orun, "a b c")
    for text in ("20XB", "5 (d"):
        shown = orun("store", "gc", "--max-size", text)
        assert shown.code == 2
        assert shown.err == (
            f"error: invalid value for '--max-size': '{text}' is not a size such as 300MB, 22.9kB or 1.5GiB\n"
            "  hint: to see the options: orun store gc --help\n"
        )
    shown = orun("store", "gc", "--max-age", "-3d")
    assert shown.code == 2
    assert shown.err.startswith("error: invalid value for '--max-age': '-3d' is less than nothing\n  hint: ")
    shown = orun("store", "gc", "--max-age", "30")
    assert (shown.code, shown.err) == (
        2,
        (
            "error: invalid value for '--max-age': '30' has no unit, as in 30d\n"
            "  hint: to see the options: orun store gc --help\n"
        ),
    )
    assert (project / "artifacts").exists()


def test_a_pin_of_what_cannot_be_read_is_refused(orun: CommandLine, project: Path) -> None:
    """A full disk, of which a network file system tells a reader, was taken for one that the output goes to."""
    run(orun, "a b c")

    def fail(_: Actions) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Actions, "iter_pointers", fail)
        refused = orun("store", "pin", "v1", "words/write")
    store = project / "artifacts"
    assert (refused.code, refused.out, refused.err) == (
        3,
        "",
        (
            f"error: cannot read what is in the store: the disk is full\n  {store}: No space left on device\n"
            f"  hint: Nothing that was stored is lost. Free some space and run it again: df -h {store}\n"
        ),
    )


def test_a_pinned_model_was_made_by_the_pipeline_that_accepted_it(orun: CommandLine, project: Path) -> None:
    """Whichever pipeline made the same bytes first; an investigation is no maker."""
    text = (project / "words.yaml").read_text()
    (project / "first.yaml").write_text(text)
    assert orun("first.yaml").code == 0
    assert orun("words.yaml").code == 0
    assert orun("baseline", "accept", "words.yaml").code == 0
    with Store.open(project / "artifacts") as store:
        latest = store.find_latest("words", "write")
        assert latest
        store.put_action(replace(latest, key="f" * 64, pipeline="words.blame", stage="write without"))
    assert orun("store", "pins").out.splitlines()[1].split("  ")[::2] == ["baseline of words: count", "words/write"]


def test_pins(orun: CommandLine, project: Path) -> None:
    del project
    tree = run(orun, "a b c")
    assert orun("store", "pins").out == "nothing is pinned\n"
    assert orun("store", "pin", "v1", "words/write").code == 0
    assert json.loads(orun("store", "pin", "v2", tree, "--json").out)["tree"] == tree
    assert orun("store", "pins").out == (
        f"pin  artifact      made by      since\nv1   {tree[:12]}  words/write  just now\n"
        f"v2   {tree[:12]}  words/write  just now\n"
    )
    assert [pin["name"] for pin in json.loads(orun("store", "pins", "--json").out)["pins"]] == ["v1", "v2"]
    shown = orun("store", "unpin", "v3")
    assert (shown.code, shown.err) == (
        2,
        "error: there is no pin 'v3'\n  pins: v1, v2\n  hint: orun store pins\n",
    )
    shown = orun("store", "pin", "v1", "words/wirte")
    assert shown.err == (
        "error: no artifact 'words/wirte' is in the store\n  did you mean words/write?\n"
        "  hint: orun store pin NAME words/write\n"
    )
    assert orun("store", "pin", "", "words/write").err == (
        "error: a pin cannot be called ''\n  its name must be printable\n"
    )
    assert orun("store", "pin", "v1", "zzz").err == (
        "error: no artifact 'zzz' is in the store\n"
        "  expected the beginning of a digest, or words/count or words/write\n"
        "  hint: orun store pin NAME PIPELINE/STAGE\n"
    )


def test_the_runs_of_a_baseline_stay_though_another_one_made_its_model(orun: CommandLine, project: Path) -> None:
    """The first made it, of the second it was accepted, the third tells where the baseline is, the last is the last."""
    (project / "other.yaml").write_text(f"name: words\n{(project / 'words.yaml').read_text()}")
    second = "stages.write.with.text=the second text"
    assert orun("other.yaml", "--set", second).code == 0
    assert orun("words.yaml", "--set", second).code == 0
    assert orun("baseline", "accept", "words.yaml", "--set", second).code == 0
    assert orun("store", "unpin", "baseline of words: count").code == 0
    for file, text in (("words.yaml", "the third text"), ("other.yaml", "the fourth text")):
        assert orun(file, "--set", f"stages.write.with.text={text}").code == 0
    settle(project)
    assert collected(orun, "--runs", "1")["runs"] == []


def test_what_was_accepted_is_kept_as_long_as_it_is(orun: CommandLine, project: Path, tmp_path: Path) -> None:
    model = run(orun, "the accepted text")
    assert orun("baseline", "accept", "words.yaml", "--set", "stages.write.with.text=the accepted text").code == 0
    assert orun("store", "unpin", "baseline of words: count").code == 0  # as where the file came with a pull
    run(orun, "the new text")
    document = collected(orun, "--runs", "1")
    assert document["trees"] == set()
    why = "accepted for count in words.baseline.json"
    assert document["kept"]["roots"] == [{"tree": model, "why": why}]
    assert f"kept: {model[:12]}, {why}\n" in orun("store", "gc", "--runs", "1").out
    path = tmp_path / "elsewhere.json"
    (project / "words.baseline.json").rename(path)
    assert collected(orun, "--runs", "1", "--baseline", str(path))["trees"] == set()
    assert collected(orun, "--runs", "1")["trees"] == {model}


def test_with_a_damaged_baseline_nothing_is_removed(orun: CommandLine, project: Path) -> None:
    run(orun, "a b c")
    (project / "words.baseline.json").write_text("{")
    shown = orun("store", "gc", "--runs", "0")
    assert (shown.code, shown.err) == (
        2,
        (
            "words.baseline.json:1:2: error: the baseline is not JSON: Expecting property name enclosed in double "
            "quotes\n    1 | {\n      |  ^\n"
            "  hint: take the committed version back, or remove the file and accept again: orun baseline accept FILE\n"
        ),
    )
    assert orun("store", "verify").out.startswith("4 objects")


def test_a_pipeline_that_is_gone_is_said(orun: CommandLine, project: Path) -> None:
    run(orun, "a b c")
    (project / "words.yaml").rename(project / "other.yaml")
    first = orun("store", "gc").out.splitlines()[0]
    assert first == (
        f"warning: {project}/words.yaml no longer exists, so it is not known what was accepted for words; "
        "to keep it: --baseline FILE"
    )


@pytest.mark.parametrize("name", ["words", "words.blame"])
def test_a_file_that_is_gone_is_not_said_where_another_is_there_or_nothing_is_accepted(
    orun: CommandLine, project: Path, name: str
) -> None:
    """Of one pipeline in two files, or of an investigation."""
    other = project / "other.yaml"
    other.write_text(f"name: {name}\n{(project / 'words.yaml').read_text()}")
    assert orun("words.yaml").code == orun("other.yaml").code == 0
    other.unlink()
    assert collected(orun)["notices"] == []


BUNDLE = """
name: tiny
stages:
  model: {uses: convert/onnx, with: {path: model.onnx}}
  release: {uses: release/bundle, needs: model}
"""


def test_releases_are_kept(orun: CommandLine, project: Path) -> None:
    import onnx

    header = '<ir_version: 8, opset_import: ["" : 17]> '
    onnx.save(onnx.parser.parse_model(f"{header}g (float[2] x) => (float[2] y) {{ y = Relu(x) }}"), "model.onnx")
    (project / "tiny.yaml").write_text(BUNDLE)
    trees = {}
    for version in ("1.0", "1.1", ""):
        shown = orun("tiny.yaml", "--json", "--set", f'stages.release.with.version="{version}"')
        assert shown.code == 0, shown.out + shown.err
        trees[version] = json.loads(shown.out)["stages"][1]["tree"]

    def removed(*options: str) -> set[str]:
        document = json.loads(orun("store", "gc", "--json", "--dry-run", "--runs", "0", *options).out)
        assert len(document["kept"]["roots"]) == 2 - len(options) // 2
        return {item["tree"] for item in document["removed"] if item["stage"] == "release"}

    assert removed() == {trees[""]}
    assert removed("--releases", "1") == {trees["1.0"], trees[""]}
    with Store.open(project / "artifacts") as store:
        tree = store.read_tree(trees["1.1"])
        assert tree is not None
        (manifest,) = (object_path(store, entry.digest) for entry in tree.entries if entry.path == MANIFEST)
    flip(manifest)
    document = json.loads(orun("store", "gc", "--json", "--dry-run", "--runs", "0").out)
    assert [root["tree"] for root in document["kept"]["roots"]] == [trees["1.0"]]
    assert [
        notice for notice in document["notices"] if notice.startswith(f"artifact {trees['1.1']} does not count as a")
    ] != []


SLOW = """\
import time

from orun import stage


@stage(inputs={}, output="files")
def write(context, *, text: str):
    time.sleep(0.1)
    (context.output / "text.txt").write_text(text)


@stage(inputs={"text": "files"}, output="files")
def louder(context):
    text = (context.inputs["text"] / "text.txt").read_text()
    time.sleep(0.1)
    (context.output / "text.txt").write_text(text + "!")
"""
CHAIN = """\
stages:
  one: {uses: ./words.py:write, with: {text: a}}
  two: {uses: ./words.py:louder, needs: {text: one}}
  three: {uses: ./words.py:louder, needs: {text: two}}
"""


@pytest.mark.slow
def test_a_run_beside_is_not_disturbed(orun: CommandLine, project: Path) -> None:
    (project / "words.py").write_text(SLOW)
    (project / "words.yaml").write_text(CHAIN)
    change = "stages.one.with.text=b"
    clean = json.loads(orun("words.yaml", "--json", "--store", "clean", "--set", change).out)["stages"]
    before = {stage["tree"] for stage in json.loads(orun("words.yaml", "--json").out)["stages"]}
    removed = set[str]()
    command = [sys.executable, "-m", "orun", "words.yaml", "--json", "--set", change]
    with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            removed |= {entry["tree"] for entry in collected(orun, "--runs", "0")["removed"]}
        document = json.loads(process.communicate(timeout=60)[0])
    assert [stage["outcome"] for stage in document["stages"]] == ["built", "built", "built"]
    assert [stage["tree"] for stage in document["stages"]] == [stage["tree"] for stage in clean]
    assert removed >= before
    assert orun("store", "verify").code == 0
