from __future__ import annotations

from pathlib import Path

import pytest
from blake3 import blake3

from orun.core.source_location import Position, Problem
from orun.errors import PipelineError
from orun.fs.bounded_reads import TEXT_LIMIT
from orun.pipeline.text import read


def problem(file: Path) -> Problem:
    with pytest.raises(PipelineError) as caught:
        read(file)
    (only_problem,) = caught.value.problems
    return only_problem


def test_a_text_has_lines_a_digest_and_places(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_bytes("a: é\nb: 2\n".encode())
    text = read(file)
    assert text.lines == ("a: é", "b: 2", "")
    assert text.digest == blake3(file.read_bytes()).hexdigest()
    assert text.build_span(1, 4, 99).width == 1


def test_byte_order_mark_and_windows_line_ends_are_fine(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")
    assert read(file).lines == ("a: 1", "b: 2", "")


def test_a_byte_that_is_no_utf_8_is_told_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_bytes("name: bert\ntitle: é".encode() + b"\xff: x\n")
    assert problem(file) == Problem(
        Position(str(file), 2, 9), "the file is not UTF-8: byte 0xff", expected="UTF-8", hint="save it as UTF-8"
    )


@pytest.mark.parametrize(
    ("name", "kind"), [("m.onnx", "convert/onnx"), ("M.PT2", "convert/torch"), ("m.pkl", "convert/sklearn")]
)
def test_a_model_is_no_pipeline(tmp_path: Path, name: str, kind: str) -> None:
    file = tmp_path / name
    file.write_bytes(b"\x08\x0a\xff")
    expected = f"a YAML file with a stage that takes the model: `uses: {kind}`"
    assert problem(file) == Problem(
        Position(str(file), 1, 1), "the file is a model, no pipeline", expected=expected, hint=f"orun stages {kind}"
    )


def test_a_control_character_is_told_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_bytes(b"name: bert\nx: \x00\n")
    assert problem(file) == Problem(
        Position(str(file), 2, 4), "the file holds the control character '\\x00'", expected="text"
    )


def test_a_file_just_above_the_limit_is_too_large(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_bytes(b"#" * (TEXT_LIMIT + 1))
    assert problem(file) == Problem(
        Position(str(file), 1, 1), "the file is too large", expected="a pipeline file of at most 4 MiB"
    )


@pytest.mark.parametrize("order", ["", "-le", "-be"])
@pytest.mark.parametrize("width", ["16", "32"])
def test_a_wider_encoding(tmp_path: Path, width: str, order: str) -> None:
    """With a byte order mark and without one."""
    file = tmp_path / "p.yaml"
    file.write_bytes("name: bert".encode(f"utf-{width}{order}"))
    assert problem(file) == Problem(
        Position(str(file), 1, 1), f"the file is UTF-{width}", expected="UTF-8", hint="save it as UTF-8"
    )
