"""The projects that faults are tried on: one of plain functions over files, one of real stages over a small model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

STAGES = '''
"""Stages over text: a fan of two, joined again, and a chain after it."""

import os
import time
from pathlib import Path

from orun import stage

import helper


@stage(inputs={}, output="files")
def source(context, *, mark: str = "a"):
    words = Path(context.root / "data.txt").read_text().split()
    (context.output / "more").mkdir()
    (context.output / "text").write_text(helper.marked(words, mark))
    (context.output / "more" / "empty").touch()


@stage(inputs={"text": "files"}, output="files")
def part(context, *, number: int):
    words = (context.inputs["text"] / "text").read_text().split()
    time.sleep(0.05)  # in which it can be killed
    (context.output / "text").write_text(" ".join(words[number::2]))
    tool = context.output / "tool.sh"
    tool.write_text(f"echo {number}")
    tool.chmod(0o755)


@stage(inputs={"left": "files", "right": "files"}, output="files")
def join(context):
    texts = [(context.inputs[port] / "text").read_text() for port in ("left", "right")]
    (context.output / "text").write_text("\\n".join(texts))


@stage(inputs={"text": "files"}, output="files")
def upper(context, *, mark: str = ""):
    time.sleep(0.05)
    (context.output / "text").write_text((context.inputs["text"] / "text").read_text().upper() + mark)


@stage(inputs={"text": "files"}, output="files")
def count(context):
    (context.output / "text").write_text(str(len((context.inputs["text"] / "text").read_text().split())))
    return {"letters": (context.inputs["text"] / "text").stat().st_size}
'''
HELPER = """
def marked(words, mark):
    return " ".join(word + mark for word in words)
"""
PIPELINE = """
name: text
vars: {mark: ""}
stages:
  source: {uses: ./stages.py:source}
  left: {uses: ./stages.py:part, needs: source, with: {number: 0}}
  right: {uses: ./stages.py:part, needs: source, with: {number: 1}}
  join: {uses: ./stages.py:join, needs: {left: left, right: right}}
  upper: {uses: ./stages.py:upper, needs: join, with: {mark: "${vars.mark}"}}
  count: {uses: ./stages.py:count, needs: upper}
"""
ONNX = """
name: model
stages:
  take: {uses: convert/onnx, with: {path: model.onnx}}
  simplify: {uses: optimize/simplify, needs: take}
  int8: {uses: quantize/dynamic, needs: simplify, with: {per_channel: false}}
"""


FIRST = "as written"  # the variant that `out/` holds before a fault


@dataclass(frozen=True)
class Subject:
    """What a fault is tried on.

    Attributes:
        pipeline: the pipeline's name.
        stages: the ids of its stages.
        variants: runs that ask for different artifacts: name -> further words of the command line.
        write: makes its files in a folder.
    """

    pipeline: str
    stages: tuple[str, ...]
    variants: Mapping[str, tuple[str, ...]]
    write: Callable[[Path], None]


def write_text(folder: Path) -> None:
    """The project of plain functions."""
    data = " ".join(f"word{number}" for number in range(2000))
    files = {"pipeline.yaml": PIPELINE, "stages.py": STAGES, "helper.py": HELPER, "data.txt": data}
    for name, text in files.items():
        (folder / name).write_text(text)


def write_model(folder: Path) -> None:
    """The project of real stages; the model has its weights in a file of their own."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = np.random.default_rng(0).standard_normal((64, 64), dtype=np.float32)
    floats = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("Identity", ["x"], ["same"]),
            helper.make_node("MatMul", ["same", "w"], ["product"], name="product"),
            helper.make_node("Relu", ["product"], ["y"]),
        ],
        "small",
        [floats("x", TensorProto.FLOAT, ["n", 64])],
        [floats("y", TensorProto.FLOAT, ["n", 64])],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 20)])
    onnx.save(model, folder / "model.onnx", save_as_external_data=True, location="model.onnx.data")
    (folder / "pipeline.yaml").write_text(ONNX)


TEXT = Subject(
    "text",
    ("source", "left", "right", "join", "upper", "count"),
    {FIRST: (), "another end": ("--set", "vars.mark=more")},
    write_text,
)
MODEL = Subject(
    "model",
    ("take", "simplify", "int8"),
    {FIRST: (), "by channel": ("--set", "stages.int8.with.per_channel=true")},
    write_model,
)
