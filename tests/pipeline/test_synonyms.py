"""The names that other tools use lead to ours, and to nothing that is not there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orun.pipeline.schema import build
from orun.stages import registry
from orun.stages.registry import BUILTIN
from orun.text.aliases import note, read_names, read_notes
from orun.text.suggestions import Unknown, find_closest


def synonyms(schema: Any) -> Iterator[Any]:
    """Every key and constant that a schema knows at any depth."""
    if isinstance(schema, dict):
        yield from schema.get("properties", ())
        yield from schema.get("enum", ())
        for part in schema.values():
            yield from synonyms(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from synonyms(part)


def test_every_name_that_is_offered_is_one() -> None:
    assert set(read_names()) <= {*synonyms(build()), "cpu"}  # which is the name of a target


def test_every_place_of_a_note_is_one() -> None:
    text = str(build())
    assert [place for place in read_notes() if f"'x-noun': '{place}" not in text] == []


@pytest.mark.parametrize(
    ("word", "options", "meant"),
    [
        ("OnnxFloatToFloat16", BUILTIN, "optimize/float16"),
        ("OnnxQuantization", BUILTIN, "quantize/static"),  # Olive's is static unless told otherwise
        ("percent-max-degradation", ["min", "max", "max_drop"], "max_drop"),
        ("nodes_to_exclude", ["op_types", "exclude"], "exclude"),
        ("nodes_to_exclude", ["op_types"], ""),
        ("deps", ["uses", "needs"], "needs"),
        ("Version", ["version", "opset"], "version"),
        ("opset", ["version"], "version"),
        ("convert/keras", BUILTIN, "convert/tensorflow"),
        ("optimize/fp16", BUILTIN, "optimize/float16"),
        ("measure/profiler", BUILTIN, "measure/profile"),
        ("convert/tensorflw", BUILTIN, "convert/tensorflow"),
        ("or", ["all", "any"], "any"),
        ("p5O", ["p50", "p90", "p95", "p99"], "p50"),
        ("per-channe1", ["channel", "per_channel"], "per_channel"),
        ("int", ["float32", "int64", "int8"], "int64"),
        ("int", ["int8", "uint8"], "int8"),
    ],
)
def test_what_another_tool_calls_it(word: str, options: list[str], meant: str) -> None:
    assert find_closest(word, options) == meant


def test_a_note_is_of_its_place() -> None:
    assert note("num_threads", "parameter of measure/latency").startswith("session options are those of a target")
    assert note("num_threads", "key of a stage") == ""


def test_a_pass_of_olive_that_the_library_lacks_says_what_to_do_instead(tmp_path: Path) -> None:
    with pytest.raises(Unknown) as tuning:
        registry.find("OrtSessionParamsTuning", tmp_path)
    assert tuning.value.suggestion == "optimize/session"
    with pytest.raises(Unknown) as search:
        registry.find("InsertBeamSearch", tmp_path)
    assert search.value.suggestion == ""
    assert search.value.hint.startswith("a change of the graph that the library lacks is a function of yours")
    with pytest.raises(Unknown) as quantization:
        registry.find("OnnxQuantization", tmp_path)
    assert (quantization.value.suggestion, quantization.value.hint) == (
        "quantize/static",
        "where its `quant_mode` or `approach` is dynamic: quantize/dynamic",
    )
