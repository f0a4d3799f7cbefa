"""orun verify, on a real bundle's manifest."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from orun.core.serialization import TOO_DEEP
from orun.stages.release._manifest import REQUIRED, write_manifest

from .conftest import CommandLine


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bundle in the working folder."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "release"
    folder.mkdir()
    for name in REQUIRED:
        (folder / name).write_bytes(name.encode())
    write_manifest(folder, "bert", "1.0")
    return folder


def test_a_whole_bundle(orun: CommandLine, bundle: Path) -> None:
    digests = {
        name: hashlib.sha256((bundle / name).read_bytes()).hexdigest() for name in ("manifest.json", *sorted(REQUIRED))
    }
    shown = orun("verify", "release")
    lines = "".join(f"{digest}  {name}\n" for name, digest in digests.items())
    assert (shown.code, shown.out) == (
        0,
        f"release is OK: all files match the manifest\n\nSHA-256\n{lines}",
    )
    assert json.loads(orun("verify", "release", "--json").out) == {
        "bundle": "release",
        "ok": True,
        "problems": [],
        "sha256": digests,
        "requires": {},
        "note": "",
    }


def test_what_the_models_of_a_bundle_need(orun: CommandLine, bundle: Path) -> None:
    (bundle / "manifest.json").unlink()
    write_manifest(bundle, "bert", "1.0", {"onnxruntime-extensions": "0.15.2"})
    first, second, *_ = orun("verify", "release").out.splitlines()
    assert first == "release is OK: all files match the manifest"
    assert second == "its sessions need onnxruntime-extensions 0.15.2 beside ONNX Runtime"
    assert json.loads(orun("verify", "release", "--json").out)["requires"] == {"onnxruntime-extensions": "0.15.2"}


def test_a_bundle_that_was_changed(orun: CommandLine, bundle: Path) -> None:
    (bundle / "model.onnx").write_bytes(b"model.0nnx")
    (bundle / "readme.txt").touch()
    shown = orun("verify", "release")
    assert (shown.code, shown.err) == (1, "")
    first, *problems = shown.out.splitlines()
    assert first == "release does not match its manifest:"
    assert problems[-1] == "  readme.txt is not in the manifest"
    document = json.loads(orun("verify", "release", "--json").out)
    assert [f"  {problem}" for problem in document["problems"]] == problems
    assert document["sha256"] == {}


@pytest.mark.usefixtures("bundle")
def test_a_bundle_that_is_not_there(orun: CommandLine) -> None:
    shown = orun("verify", "relaese")
    assert (shown.code, shown.out, shown.err) == (
        2,
        "",
        (
            "error: there is no bundle relaese\n"
            "  expected the folder of a stage of release/bundle, or a copy of it\n"
            "  hint: ls artifacts/out\n"
        ),
    )


RELEASE = """\
stages:
  write:
    uses: ./words.py:write
    gate: {length: {min: 20}}
  count: {uses: ./words.py:count, needs: {text: write}}
"""
ELSEWHERE = "  expected the folder of a stage of release/bundle, or a copy of it\n  hint: ls artifacts/out\n"
NOT_THERE = "error: there is no bundle artifacts/out/words/count\n"


def test_a_bundle_that_the_last_run_did_not_build(orun: CommandLine, project: Path) -> None:
    """It named neither the gate that blocked the release nor the next command."""
    (project / "words.yaml").write_text(RELEASE, encoding="utf-8")
    assert orun("words.yaml", "--set", "stages.write.with.text=a b").code == 1
    shown = orun("verify", "artifacts/out/words/count")
    assert (shown.code, shown.out, shown.err) == (
        2,
        "",
        (
            f"{NOT_THERE}  the last run of words.yaml built none:\n"
            "  words.yaml:4:21: gate failed: write length min 20: length is 3, below the minimum of 20\n"
            "  hint: correct that, then: orun words.yaml --set 'stages.write.with.text=a b'\n"
        ),
    )
    assert orun("words.yaml", "--set", "stages.write.with.text=boom", "--set", "stages.write.gate={}").code == 3
    assert orun("verify", "artifacts/out/words/count").err.splitlines()[1:-1] == [
        "  the last run of words.yaml built none:",
        "  stage count failed: count raised ValueError: boom is no word",
    ]
    orun("words.yaml", "--to", "write", "--set", "stages.write.gate={}")
    assert orun("verify", "artifacts/out/words/count").err == f"{NOT_THERE}{ELSEWHERE}"


def test_a_bundle_of_an_earlier_run_says_so(orun: CommandLine, project: Path) -> None:
    """After a failed gate it is the release before, and is OK."""
    (project / "words.yaml").write_text(RELEASE, encoding="utf-8")
    orun("words.yaml", "--set", "stages.write.with.text=a b")
    folder = project / "artifacts" / "out" / "words" / "count"
    folder.mkdir()
    for name in REQUIRED:
        (folder / name).touch()
    write_manifest(folder, "words", "1.0")
    shown = orun("verify", "artifacts/out/words/count")
    assert (shown.code, shown.out.splitlines()[:3]) == (
        0,
        [
            "artifacts/out/words/count is OK: all files match the manifest",
            (
                "note: it is of an earlier run, as the last run of words.yaml built none: "
                "words.yaml:4:21: gate failed: write length min 20: length is 3, below the minimum of 20"
            ),
            "",
        ],
    )
    assert json.loads(orun("verify", "artifacts/out/words/count", "--json").out)["note"] == (
        "it is of an earlier run, as the last run of words.yaml built none: "
        "words.yaml:4:21: gate failed: write length min 20: length is 3, below the minimum of 20"
    )


def test_a_bundle_that_was_removed_after_the_last_run(orun: CommandLine, project: Path) -> None:
    orun("words.yaml")
    shutil.rmtree(project / "artifacts" / "out" / "words" / "count")
    shown = orun("verify", "artifacts/out/words/count/")
    assert shown.err == (
        "error: there is no bundle artifacts/out/words/count/\n"
        "  it was removed after the last run\n"
        "  hint: orun words.yaml\n"
    )
    (project / "artifacts").rename(project / "other store")
    assert orun("verify", "other store/out/words/cuont").err.endswith("  hint: ls 'other store/out'\n")
    assert orun("verify", "words/count", "--store", "other store").err.endswith("  hint: ls 'other store/out'\n")
    (project / "other store").rename(project / "artifacts")
    for name in ("words/cuont", "words", "wodrs/count"):
        assert orun("verify", f"artifacts/out/{name}x").err == (
            f"error: there is no bundle artifacts/out/{name}x\n{ELSEWHERE}"
        )


def test_what_is_no_bundle_names_the_bundle_in_it_or_beside_it(orun: CommandLine, bundle: Path) -> None:
    (bundle.parent / "int8").mkdir()
    for folder in (".", "int8"):
        assert orun("verify", folder).out == (
            f"{folder} does not match its manifest:\n"
            "  manifest.json cannot be read, so this is not a bundle: No such file or directory\n"
            "  hint: orun verify release\n"
        )


def test_names_reach_no_terminal_as_they_are(orun: CommandLine, bundle: Path) -> None:
    (bundle / os.fsdecode(b"\xff\n\x1b[31m\xc3\xa9")).touch()
    shown = orun("verify", "release")
    assert shown.out == "release does not match its manifest:\n  \\udcff\\n\\x1b[31mé is not in the manifest\n"


NO_BUNDLE = "manifest.json cannot be read, so this is not a bundle: "
ONLY_FILES = "but a bundle holds only files"


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def huge(path: Path) -> None:
    os.truncate(path, 200 * 2**30)  # a hole but for its first bytes


@pytest.mark.parametrize(
    ("name", "damage", "problem"),
    [
        ("manifest.json", pipe, f"{NO_BUNDLE}Not a regular file"),
        ("manifest.json", device, f"manifest.json is a link, {ONLY_FILES}"),
        ("manifest.json", huge, f"{NO_BUNDLE}File too large: more than 64 MiB"),
        ("model.onnx", pipe, f"model.onnx is a pipe, a socket or a device, {ONLY_FILES}"),
        ("model.onnx", device, f"model.onnx is a link, {ONLY_FILES}"),
        ("model.onnx", huge, "model.onnx has 214748364800 bytes instead of 10"),
    ],
)
def test_kind_and_size_are_looked_at_before_a_file_is_read(
    orun: CommandLine, bundle: Path, name: str, damage: Callable[[Path], object], problem: str
) -> None:
    damage(bundle / name)
    shown = orun("verify", "release")
    assert (shown.code, shown.out, shown.err) == (1, f"release does not match its manifest:\n  {problem}\n", "")


@pytest.mark.parametrize("depth", [65, 990, 200_000])
def test_a_manifest_nested_so_deep_that_it_may_be_read_but_not_digested(
    orun: CommandLine, bundle: Path, depth: int
) -> None:
    (bundle / "manifest.json").write_bytes(b'{"format": 1, "files": ' + b"[" * depth + b"]" * depth + b"}")
    shown = orun("verify", "release")
    assert (shown.code, shown.out) == (
        1,
        f"release does not match its manifest:\n  manifest.json is damaged: {TOO_DEEP}\n",
    )


EXPECTED = "  expected the folder of a stage of release/bundle, or a copy of it"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            "x.zip",
            (
                f"x.zip is an archive, not a bundle\n{EXPECTED}: unpack it first\n"
                "  hint: mkdir x && unzip x.zip -d x && orun verify x"
            ),
        ),
        (
            "my bert.TAR.GZ",
            (
                f"my bert.TAR.GZ is an archive, not a bundle\n{EXPECTED}: unpack it first\n"
                "  hint: mkdir 'my bert' && tar -xf 'my bert.TAR.GZ' -C 'my bert' && orun verify 'my bert'"
            ),
        ),
        ("p.yaml", f"p.yaml is a file, not a bundle\n{EXPECTED}\n  hint: orun verify --rebuild p.yaml"),
        ("m.onnx", f"m.onnx is a file, not a bundle\n{EXPECTED}\n  hint: ls artifacts/out"),
        (
            "release/model.onnx",
            f"release/model.onnx is a file, not a bundle\n{EXPECTED}\n  hint: orun verify release",
        ),
        ("pipe", f"pipe is no file or folder, not a bundle\n{EXPECTED}\n  hint: ls artifacts/out"),
        ("ring", f"ring is no file or folder, not a bundle\n{EXPECTED}\n  hint: ls artifacts/out"),
    ],
)
def test_what_is_no_folder(orun: CommandLine, bundle: Path, target: str, message: str) -> None:
    for name in ("x.zip", "my bert.TAR.GZ", "p.yaml", "m.onnx"):
        bundle.with_name(name).touch()
    os.mkfifo(bundle.with_name("pipe"))
    bundle.with_name("ring").symlink_to("ring")
    shown = orun("verify", target)
    assert (shown.code, shown.out, shown.err) == (2, "", f"error: {message}\n")
