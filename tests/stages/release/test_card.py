"""`release/card`: every figure comes from the provenance, and equal histories make equal cards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from orun.errors import StageFailed
from orun.stages._graph.input_domain import InputDomain, InputValues, write_domain
from orun.stages.release._manifest import verify_bundle
from tests.stages.models import LOOKUP, parse
from tests.stages.support import StageRun, artifact, run_stage

from .support import MATMUL, make_bundle, provenance, provenance_file

PARAMS = {
    "title": "Tiny",
    "description": "Multiplies.",
    "limitations": "It knows *one* matrix.",
    "license": "apache-2.0",
    "language": ["en"],
    "tags": ["example"],
    "text": "more.md",
}


def make(folder: Path) -> StageRun:
    (folder / "more.md").write_text("## Contact\n\nSomebody.\n")
    return run_stage(
        "release/card",
        folder,
        PARAMS,
        inputs={"model": artifact(folder, parse(MATMUL))},
        root=folder,
        provenance=provenance_file(folder),
    )


def test_the_whole_card(tmp_path: Path) -> None:
    text = (make(tmp_path).output / "README.md").read_text("utf-8")
    _, front, body = text.split("---\n", 2)
    assert yaml.safe_load(front) == {
        "license": "apache-2.0",
        "language": ["en"],
        "library_name": "onnx",
        "tags": ["onnx", "example"],
        "model-index": [
            {
                "name": "Tiny",
                "results": [
                    {
                        "task": {"type": "other"},
                        "dataset": {"name": "of the pipeline", "type": "other"},
                        "metrics": [{"type": "latency.p50", "value": 0.008, "name": "latency p50"}],
                    }
                ],
            }
        ],
    }
    assert body == (
        """
# Tiny

Multiplies.

## Limitations

It knows *one* matrix.

## Model

|  |  |
| --- | --- |
| file | model.onnx, 135 B |
| format | ONNX IR 9, operator sets ai.onnx 20 |
| stored values | 8 |
| operators | 1: MatMul 1 |

|  | name | type | shape |
| --- | --- | --- | --- |
| input | x | float | \\[batch, 4\\] |
| output | y | float | \\[batch, 2\\] |

```python
import onnxruntime

session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
outputs = session.run(None, {"x": ...})
```

## Measured

| stage | metric | value | 95 % interval | reference model | machine |
| --- | --- | --- | --- | --- | --- |
| latency | p50 | 8 ms | 7.9 ms to 8.2 ms | 17 ms | AMD \\| EPYC |

## Gates

| gate | threshold | measured | verdict |
| --- | --- | --- | --- |
| latency p50 | max 9ms | 8 ms (7.9 ms to 8.2 ms) | passed |

## How it was made

| stage | kind | tools | result |
| --- | --- | --- | --- |
| export | convert/torch | torch 2.13.0 | bbbbbbbbbbbb |
| latency | measure/latency | onnxruntime 1.31.1 | dddddddddddd |

## Contact

Somebody.
"""
    )


def test_the_input_domain(tmp_path: Path) -> None:
    model = parse(LOOKUP)
    values = {"ids": InputValues(high=3), "mask": InputValues("right-padded"), "extra": InputValues(low=-0.5)}
    write_domain(model, InputDomain(values, {"length": (16, 32)}))
    run = run_stage(
        "release/card", tmp_path, {}, inputs={"model": artifact(tmp_path, model)}, provenance=provenance_file(tmp_path)
    )
    text = (run.output / "README.md").read_text("utf-8")
    assert text.partition("The model is made")[2].partition("```python")[0] == (
        """ for these inputs, and was checked with them:

| input or axis |  | domain |
| --- | --- | --- |
| ids | values | 0 to 3 |
| mask | values | 0 and 1, all ones before the zeros |
| extra | values | at least -0.5 |
| length | sizes tried | 16, 32 |

"""
    )


def test_the_domain_of_inputs_that_cannot_be_made_up(tmp_path: Path) -> None:
    model = parse(
        """
        <ir_version: 9, opset_import: ["" : 20]>
        g (bfloat16[batch, 2] x, seq(float[length]) past) => (bfloat16[batch, 2] y) { y = Identity (x) }
        """
    )
    write_domain(model, InputDomain({"x": InputValues(low=0, high=1)}, {"batch": (1, 8)}))
    run = run_stage(
        "release/card", tmp_path, {}, inputs={"model": artifact(tmp_path, model)}, provenance=provenance_file(tmp_path)
    )
    rows = [line for line in (run.output / "README.md").read_text("utf-8").splitlines() if line.startswith("| ")]
    assert [row for row in rows if row.startswith(("| input |", "| x |", "| batch |"))] == [
        "| input | x | bfloat16 | \\[batch, 2\\] |",
        "| input | past | sequence |  |",
        "| x | values | 0 to 1 |",
        "| batch | sizes tried | 1, 8 |",
    ]


def test_gates_of_a_group_stand_below_it_and_what_no_verdict_tells_below_all(tmp_path: Path) -> None:
    """A member that failed is no failure of what was released, and a difference of proportions no share of one."""
    common = {"stage": "quality", "fails": False, "finding": {"code": "group"}, "outcome": "passed"}
    verdicts = [
        common | {"metric": "any of 2", "rule": "any", "threshold": "", "measured": None, "unit": ""},
        common | {"metric": "accuracy", "rule": "min", "threshold": "99%", "measured": 0.981, "unit": "ratio",
                  "depth": 1, "outcome": "failed"},
        common | {"metric": "accuracy", "rule": "max_drop", "threshold": "0.01", "measured": 0.004, "unit": "ratio",
                  "interval": {"value": 0.004, "low": 0.001, "high": 0.008}, "depth": 1,
                  "caveat": "its data is the `dataset` of int8, so keep some for this"},
    ]  # fmt: skip
    history = provenance()
    history["stages"][1] |= {"stage": "quality", "verdicts": verdicts}
    file = tmp_path / "history.json"
    file.write_text(json.dumps(history), "utf-8")
    run = run_stage("release/card", tmp_path, {}, inputs={"model": artifact(tmp_path, parse(MATMUL))}, provenance=file)
    text = (run.output / "README.md").read_text("utf-8")
    assert text.partition("## Gates\n\n")[2].partition("\n\n## ")[0] == (
        """\
| gate | threshold | measured | verdict |
| --- | --- | --- | --- |
| quality any of 2 |  |  | passed |
| \u21b3 quality accuracy | min 99% | 98.1 % | failed |
| \u21b3 quality accuracy | max\\_drop 0.01 | 0.004 (0.001 to 0.008) | passed |

- quality: its data is the \\`dataset\\` of int8, so keep some for this"""
    )


def test_equal_histories_make_equal_cards_and_a_bundle_takes_them(tmp_path: Path) -> None:
    first, second = make(tmp_path), make(tmp_path)
    assert (first.output / "README.md").read_bytes() == (second.output / "README.md").read_bytes()
    bundle = make_bundle(tmp_path, card=first.output).output
    assert (bundle / "README.md").read_bytes() == (first.output / "README.md").read_bytes()
    assert verify_bundle(bundle) == []


def test_a_text_that_cannot_be_added(tmp_path: Path) -> None:
    (tmp_path / "latin.md").write_bytes("café".encode("latin-1"))
    (tmp_path / "folder").mkdir()
    model = artifact(tmp_path, parse(MATMUL))
    for name, why in (
        ("latin.md", "'utf-8' codec can't decode byte 0xe9 in position 3: unexpected end of data"),
        ("folder", f"[Errno 21] Is a directory: '{tmp_path / 'folder'}'"),
    ):
        with pytest.raises(StageFailed) as caught:
            run_stage(
                "release/card", tmp_path, {"text": name}, inputs={"model": model}, provenance=provenance_file(tmp_path)
            )
        assert str(caught.value) == f"{name} cannot be added to the card\n  {why}\n  hint: name a text file in UTF-8"


def test_a_title_is_one_line(tmp_path: Path) -> None:
    model, provenance = artifact(tmp_path, parse(MATMUL)), provenance_file(tmp_path)
    for title, heading in (("Tiny\nmodel ", "# Tiny model"), (" ", "# bert")):
        run = run_stage("release/card", tmp_path, {"title": title}, inputs={"model": model}, provenance=provenance)
        assert heading in (run.output / "README.md").read_text("utf-8").splitlines()
