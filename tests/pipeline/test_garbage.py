"""Files that no one would write: each ends in a plain message, whatever its size."""

from __future__ import annotations

from hashlib import shake_128
from pathlib import Path

import pytest

from orun.errors import PipelineError, UsageError
from orun.pipeline import load
from orun.pipeline.problems import render

NOISE = shake_128(b"noise")


def complaint_of(file: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(file.parent)
    with pytest.raises(PipelineError) as caught:
        load(Path(file.name))
    return render(caught.value.problems)


def test_ten_megabytes_of_garbage_are_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "p.yaml"
    file.write_bytes(NOISE.digest(10 * 2**20))
    assert complaint_of(file, monkeypatch) == (
        "p.yaml:1:1: error: the file is too large\n  expected: a pipeline file of at most 4 MiB"
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (NOISE.digest(2**20), "p.yaml:1:3: error: the file is not UTF-8: byte 0xeb"),
        (b"x" * 2**20, "p.yaml:1:1: error: the file holds 'xxxx"),
        (b"[" * 2**20, "p.yaml:1:51: error: lists and mappings are nested more than 50 deep"),
        (b"- \n" * 2**16, "p.yaml:1:1: error: the file holds a list"),
        (
            b"vars:\n  a:\n" + b"  - 1234\n" * 100_001,
            "p.yaml:100003:5: error: the file holds more than 100000 values\n",
        ),
        (b"".join(b"k%d: 1\n" % n for n in range(2**10)), "p.yaml:1:1: error: 'k0' is not a key of a pipeline file"),
        (b"stages: {" + b", ".join(b"s%d: 1" % n for n in range(2**8)) + b"}", "p.yaml:1:14: error: 's0' cannot be 1"),
    ],
)
def test_smaller_garbage_is_told_at_its_first_mistake(
    data: bytes, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "p.yaml"
    file.write_bytes(data)
    assert message in complaint_of(file, monkeypatch)


def test_a_long_value_is_shortened_in_its_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "p.yaml"
    file.write_bytes(b"stages: {a: {uses: optimize/simplify, with: {atol: " + b"x" * 2**20 + b"}}}")
    assert max(len(line) for line in complaint_of(file, monkeypatch).splitlines()) < 400


WRITE = "  hint: to write one for a model: orun init MODEL"


def test_of_a_file_that_is_not_there_the_nearest_is_suggested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tmp_path.joinpath("bert.yaml").touch()
    with pytest.raises(UsageError) as caught:
        load(Path("brt.yaml"))
    assert str(caught.value) == (
        "cannot read the pipeline file brt.yaml: No such file or directory\n"
        "  did you mean bert.yaml?\n"
        "  hint: orun validate bert.yaml"
    )


@pytest.mark.parametrize(
    ("file", "working_folder", "meant"),
    [
        ("e.yaml", ".", ""),
        ("nope.md", ".", ""),
        ("nope.yml", ".", "nope.yml"),
        ("mine.yaml", ".", ""),
        ("nope.yaml", "below/further", "../../nope.yaml"),
        ("below/nope.yaml", ".", "below/nope.yaml"),
        ("below/further/nope.yaml", ".", ""),
    ],
)
def test_a_file_in_another_folder_or_of_another_suffix_may_be_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, working_folder: str, meant: str
) -> None:
    """`e.yaml` was suggested, as its suffix is the same, and not a file of the very name in another folder."""
    (tmp_path / "below" / "further").mkdir(parents=True)
    (tmp_path / file).touch()
    monkeypatch.chdir(tmp_path / working_folder)
    with pytest.raises(UsageError) as caught:
        load(Path("nope.yaml"))
    start = "cannot read the pipeline file nope.yaml: No such file or directory\n"
    hint = f"  did you mean {meant}?\n  hint: orun validate {meant}" if meant else WRITE
    assert str(caught.value) == f"{start}{hint}"


@pytest.mark.parametrize(
    ("to", "why"), [("p.yaml", "Too many levels of symbolic links"), ("gone.yaml", "No such file or directory")]
)
def test_a_link_that_leads_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str, why: str) -> None:
    """It was asked whether the same name was meant."""
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").symlink_to(to)
    with pytest.raises(UsageError) as caught:
        load(Path("p.yaml"))
    assert str(caught.value) == f"cannot read the pipeline file p.yaml: {why}\n  hint: ls -l p.yaml"


def test_a_folder_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tmp_path.joinpath("folder").mkdir()
    with pytest.raises(UsageError) as caught:
        load(Path("folder"))
    assert str(caught.value) == f"cannot read the pipeline file folder: Is a directory\n{WRITE}"


def test_a_folder_of_pipelines_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("small.yaml", "big.yml", "notes.txt"):
        tmp_path.joinpath(name).touch()
    with pytest.raises(UsageError) as caught:
        load(Path())
    assert str(caught.value) == (
        "cannot read the pipeline file .: Is a directory\n"
        "  expected a file, such as big.yml or small.yaml\n"
        "  hint: orun validate big.yml"
    )


def test_stages_that_need_what_is_not_there_are_told_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of a hundred names was compared with all of them: for a minute where they were ten thousand."""
    stages = (f"  stage{number}: {{uses: optimize/simplify, needs: stag{number}}}\n" for number in range(300))
    file = tmp_path / "p.yaml"
    file.write_text(f"stages:\n{''.join(stages)}")
    message = complaint_of(file, monkeypatch)
    assert message.count("error:") == 100
    assert "did you mean: stage99\n" in f"{message}\n"
