"""Text of a pipeline file, decoded and split into lines."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from pathlib import Path

from blake3 import blake3

from orun.core.serialization import Record
from orun.core.source_location import Position, Problem
from orun.errors import PipelineError
from orun.fs.bounded_reads import TEXT_LIMIT, read_bounded, require_regular
from orun.pipeline.nodes import Span

MODELS = {  # suffixes of model files, and the kinds that take them
    ".onnx": "convert/onnx",
    **dict.fromkeys((".pt", ".pth", ".pt2", ".safetensors"), "convert/torch"),
    **dict.fromkeys((".keras", ".h5", ".tflite", ".pb"), "convert/tensorflow"),
    **dict.fromkeys((".pkl", ".joblib"), "convert/sklearn"),
}
WIDE: Mapping[tuple[bool, ...], str] = {  # zero bytes among the first bytes of a text of ASCII letters
    (False, True, True, True): "UTF-32",
    (True, True, True, False): "UTF-32",
    (False, True, False, True): "UTF-16",
    (True, False, True, False): "UTF-16",
}
LINE_END = re.compile("\r\n|[\r\n\x85\u2028\u2029]")  # line breaks of YAML 1.1
UNPRINTABLE = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Text(Record, frozen=True):
    """Content of a file: absolute path, BLAKE3 digest of its bytes, text and lines."""

    file: str
    digest: str
    text: str
    lines: tuple[str, ...]

    def read_line(self, number: int) -> str:
        """Return a line, counted from 0; empty at the end of the file, where a parser may stop."""
        return self.lines[number] if number < len(self.lines) else ""

    def build_span(self, line: int, column: int, width: int = 1) -> Span:
        """Return a stretch of a line; line and column count from 1."""
        source = self.read_line(line - 1)
        return Span(self.file, line, column, max(1, min(width, len(source) - column + 1)), source)


def read(path: Path) -> Text:
    """Read a file as text.

    Raises:
        OSError: when it cannot be read.
        PipelineError: when it is a model, too large or not UTF-8 text.
    """
    file = str(path)
    require_regular(path)
    if kind := MODELS.get(path.suffix.lower()):
        expected = f"a YAML file with a stage that takes the model: `uses: {kind}`"
        raise _build_error(
            Position(file, 1, 1), "the file is a model, no pipeline", expected, hint=f"orun stages {kind}"
        )
    try:
        data = read_bounded(path, TEXT_LIMIT)
    except OSError as error:
        if error.errno != errno.EOVERFLOW:
            raise
        expected = f"a pipeline file of at most {TEXT_LIMIT >> 20} MiB"
        raise _build_error(Position(file, 1, 1), "the file is too large", expected) from error
    if other := detect_encoding(data):
        raise _build_error(Position(file, 1, 1), f"the file is {other}", "UTF-8", hint="save it as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, column = _find_position(data[: error.start].decode(), error.start)
        message = f"the file is not UTF-8: byte 0x{data[error.start]:02x}"
        raise _build_error(Position(file, line, column), message, "UTF-8", hint="save it as UTF-8") from error
    if control := UNPRINTABLE.search(text):
        line, column = _find_position(text, control.start())
        raise _build_error(Position(file, line, column), f"the file holds the control character {control[0]!r}", "text")
    return Text(file, blake3(data).hexdigest(), text, tuple(LINE_END.split(text)))


def detect_encoding(data: bytes) -> str:
    """Return the name of the encoding if it is UTF-16 or UTF-32, else an empty text."""
    if data.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return "UTF-32"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16"
    return WIDE.get(tuple(byte == 0 for byte in data[:4]), "")


def _find_position(text: str, offset: int) -> tuple[int, int]:
    lines = LINE_END.split(text[:offset])
    return len(lines), len(lines[-1]) + 1


def _build_error(position: Position, message: str, expected: str, *, hint: str = "") -> PipelineError:
    return PipelineError([Problem(position, message, expected=expected, hint=hint)])
