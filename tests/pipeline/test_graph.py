from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from orun.errors import UsageError
from orun.pipeline.graph import RENDERERS, select, sort_topologically
from orun.pipeline.model import Pipeline
from tests.pipeline.support import EXPORT, loaded

TEXT = f"""\
stages:
  release: {{uses: release/bundle, needs: [int8, accuracy]}}
{EXPORT}\
  int8: {{uses: quantize/dynamic, needs: export}}
  accuracy:
    uses: measure/accuracy
    needs: {{reference: export, model: int8}}
    with: {{dataset: code.py:pairs, metrics: [cosine]}}
  other: {{uses: convert/onnx, with: {{path: model.onnx}}}}
  both:
    uses: measure/accuracy
    needs: {{reference: export, model: export}}
    with: {{dataset: code.py:pairs, metrics: [cosine]}}
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return loaded(tmp_path, TEXT)


def ids(pipeline: Pipeline, **selection: list[str]) -> list[str]:
    return [stage.id for stage in select(pipeline, **selection)]


def test_stages_come_in_file_order_where_it_can_be(pipeline: Pipeline) -> None:
    assert [stage.id for stage in pipeline.stages] == ["export", "int8", "accuracy", "release", "other", "both"]


def test_the_primary_input_is_named_first(pipeline: Pipeline) -> None:
    assert dict(pipeline.stage("accuracy").needs) == {"model": "int8", "reference": "export"}
    assert list(pipeline.stage("accuracy").needs) == ["model", "reference"]


def test_stages_are_selected_alone_and_with_those_before_and_after_them(pipeline: Pipeline) -> None:
    everything = [stage.id for stage in pipeline.stages]
    assert ids(pipeline) == everything
    assert ids(pipeline, only=["accuracy", "export"]) == ["export", "accuracy"]
    assert ids(pipeline, to=["accuracy"]) == ["export", "int8", "accuracy"]
    assert ids(pipeline, from_=["int8"]) == ["int8", "accuracy", "release"]
    assert ids(pipeline, from_=["int8"], to=["accuracy"]) == ["int8", "accuracy"]
    assert ids(pipeline, only=["other"], to=["int8"]) == ["export", "int8", "other"]


def test_a_bare_name_selects_a_whole_matrix(tmp_path: Path) -> None:
    pipeline = loaded(
        tmp_path,
        f"stages:\n{EXPORT}  int8: {{uses: quantize/dynamic, needs: export, matrix: {{per_channel: [true, false]}}}}\n",
    )
    assert ids(pipeline, only=["int8"]) == ["int8[per_channel=true]", "int8[per_channel=false]"]
    assert ids(pipeline, only=["int8[per_channel=false]"]) == ["int8[per_channel=false]"]


def test_of_an_unknown_stage_the_nearest_is_suggested(pipeline: Pipeline) -> None:
    with pytest.raises(UsageError) as caught:
        select(pipeline, to=["int9"])
    assert str(caught.value) == (
        f"there is no stage 'int9' in p.yaml\n  did you mean int8?\n  hint: orun graph {pipeline.file}"
    )
    with pytest.raises(UsageError, match="there is no stage 'zzz'") as caught:
        select(pipeline, to=["zzz"])
    assert caught.value.why == "expected one of export, int8, accuracy, release, other, both"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("int8[net=topic]", "did you mean int8[net=topics,bits=4] or int8[net=topics,bits=8]?"),
        ("int8[bits=8]", "did you mean int8[net=docs,bits=8] or int8[net=topics,bits=8]?"),
        ("int8[bits=8,net=docs]", "did you mean int8[net=docs,bits=8]?"),
        ("int8[net=docs,bits=16]", "did you mean int8[net=docs,bits=4] or int8[net=docs,bits=8]?"),
        ("imt8[net=docs,bits=8]", "did you mean int8[net=docs,bits=8]?"),
        (
            "int8[x]",
            (
                "expected one of int8[net=docs,bits=4], int8[net=docs,bits=8], int8[net=topics,bits=4], "
                "int8[net=topics,bits=8]"
            ),
        ),
        ("export[net=docs]", "did you mean export?"),
    ],
)
def test_of_an_unknown_stage_of_a_matrix_the_nearest_are_suggested(tmp_path: Path, name: str, why: str) -> None:
    matrix = "matrix: {net: [docs, topics], bits: [4, 8]}, with: {exclude: ['${matrix.net}', '${matrix.bits}']}"
    pipeline = loaded(tmp_path, f"stages:\n{EXPORT}  int8: {{uses: quantize/dynamic, needs: export, {matrix}}}\n")
    with pytest.raises(UsageError) as caught:
        select(pipeline, only=[name])
    assert caught.value.why == why


def test_loops_are_found_and_the_rest_is_ordered() -> None:
    assert sort_topologically(["c", "b", "a"], [("a", "b")]) == (["c", "a", "b"], [])
    order, loops = sort_topologically(
        ["a", "b", "c", "d", "e"], [("b", "a"), ("c", "b"), ("a", "c"), ("c", "d"), ("e", "e")]
    )
    # Each needs the next: a needs b, b needs c, c needs a.
    assert loops == [["a", "b", "c"], ["e"]]
    assert order == ["a", "b", "c", "d", "e"]


def test_the_shortest_loop_is_told() -> None:
    edges = [("b", "a"), ("c", "b"), ("d", "c"), ("a", "d"), ("a", "b")]
    assert sort_topologically(["a", "b", "c", "d"], edges)[1] == [["a", "b"]]


def test_ten_thousand_stages_in_a_chain_are_ordered() -> None:
    names = [f"s{number}" for number in range(10_000)]
    order, loops = sort_topologically(list(reversed(names)), list(pairwise(names)))
    assert order == names
    assert loops == []


def test_a_graph_is_drawn_as_text(pipeline: Pipeline) -> None:
    assert RENDERERS["text"](pipeline) == (
        "export    convert/onnx\n"
        "int8      quantize/dynamic  <- model: export\n"
        "accuracy  measure/accuracy  <- model: int8, reference: export\n"
        "release   release/bundle    <- model: int8, after accuracy\n"
        "other     convert/onnx\n"
        "both      measure/accuracy  <- model: export, reference: export"
    )


def test_a_graph_is_drawn_for_mermaid(pipeline: Pipeline) -> None:
    assert RENDERERS["mermaid"](pipeline) == (
        "flowchart LR\n"
        '  s0["export<br/>convert/onnx"]\n'
        '  s1["int8<br/>quantize/dynamic"]\n'
        '  s2["accuracy<br/>measure/accuracy"]\n'
        '  s3["release<br/>release/bundle"]\n'
        '  s4["other<br/>convert/onnx"]\n'
        '  s5["both<br/>measure/accuracy"]\n'
        "  s0 --> s1\n"
        "  s1 --> s2\n"
        "  s0 -- reference --> s2\n"
        "  s1 --> s3\n"
        "  s2 -.-> s3\n"
        "  s0 -- reference --> s5"
    )


def test_a_graph_is_drawn_for_graphviz(pipeline: Pipeline) -> None:
    assert RENDERERS["dot"](pipeline) == (
        "digraph {\n"
        "  rankdir=LR;\n"
        "  node [shape=box];\n"
        '  "export" [label="export\\nconvert/onnx"];\n'
        '  "int8" [label="int8\\nquantize/dynamic"];\n'
        '  "accuracy" [label="accuracy\\nmeasure/accuracy"];\n'
        '  "release" [label="release\\nrelease/bundle"];\n'
        '  "other" [label="other\\nconvert/onnx"];\n'
        '  "both" [label="both\\nmeasure/accuracy"];\n'
        '  "export" -> "int8";\n'
        '  "int8" -> "accuracy";\n'
        '  "export" -> "accuracy" [label="reference"];\n'
        '  "int8" -> "release";\n'
        '  "accuracy" -> "release" [style=dashed];\n'
        '  "export" -> "both" [label="reference"];\n'
        "}"
    )
