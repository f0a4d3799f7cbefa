from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from orun.measure.session_options import OPTIONS
from orun.pipeline import schema
from orun.pipeline.fragments import build_fragment, describe_type, to_plain_default
from orun.pipeline.grammar import Session
from orun.providers.registry import PROVIDERS
from orun.stages.params import Duration, Param, ParamType, Range, list_params
from orun.stages.registry import list_kinds
from tests.cases.support import VALID, cases

SCHEMA = schema.build()


def accepted(kind: ParamType, value: Any) -> bool:
    return bool(Draft7Validator(build_fragment(kind)).is_valid(value))


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (ParamType("bool"), [True, False], ["true", 1, None]),
        (ParamType("int", range=Range(1, 9)), [1, 9, 5.0], [0, 10, 1.5, "5", True]),
        (ParamType("float"), [1, 0.5], ["0.5", True]),
        (ParamType("str"), ["x", "", 1.1], [True, None, []]),
        (ParamType("path"), ["a/b", 2024], ["", None]),
        (ParamType("code"), ["a/b.py:f", "../x.py:_g1"], ["a/b.py", "f", "a.py:1", "a.py:f.g"]),
        (ParamType("duration"), ["12ms", "1.5 s", "2min", 3], ["12 parsecs", "ms", "300MB", None]),
        (ParamType("size"), ["300MB", "1.5GiB", 12], ["300mb", "5%"]),
        (ParamType("ratio"), ["5%", 0.05, "0.05"], ["5 percent", "5ms"]),
        (ParamType("literal", choices=("a", 1)), ["a", 1], ["b", "1", True]),
        (ParamType("literal", optional=True, choices=("a",)), ["a", None], ["b"]),
        (ParamType("int", optional=True), [1, None], ["x"]),
        (ParamType("list", items=(ParamType("int"),)), [[], [1, 2]], [1, ["x"], {}]),
        (ParamType("map", items=(ParamType("bool"),)), [{}, {"k": True}], [{"k": 1}, []]),
        (ParamType("union", items=(ParamType("int"), ParamType("str"))), [1, "x"], [True, None]),
        (ParamType("union", optional=True, items=(ParamType("int"), ParamType("bool"))), [1, True, None], ["x"]),
        (
            ParamType("object", fields=(Param("a", ParamType("int"), 1, ""),)),
            [{}, {"a": 2}],
            [{"b": 2}, {"a": "x"}, []],
        ),
        (ParamType("any"), [1, "x", None, [{}]], []),
    ],
)
def test_what_a_type_accepts(kind: ParamType, good: list[Any], bad: list[Any]) -> None:
    assert [value for value in good if not accepted(kind, value)] == []
    assert [value for value in bad if accepted(kind, value)] == []
    # An editor sees the file before it is expanded, and must not complain of an expression.
    assert accepted(kind, "${vars.x}")
    assert accepted(kind, "a${vars.x}b")
    # `$${` is a literal `${`: no expression.
    assert accepted(kind, "$${vars.x}") is (kind.name in ("str", "path", "target", "any") or "str" in str(kind.items))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (ParamType("bool"), "true or false"),
        (ParamType("int", range=Range(1, 9)), "a whole number from 1 to 9"),
        (ParamType("float", range=Range(low=0.5)), "a number of at least 0.5"),
        (ParamType("ratio", range=Range(high=1)), "a proportion of at most 1 such as 5% or 0.05"),
        (ParamType("literal", choices=("a", True, 1)), "one of a, true, 1"),
        (ParamType("list", items=(ParamType("str"),)), "a list, each item text"),
        (ParamType("map", items=(ParamType("bool"),)), "a mapping, each value true or false"),
        (ParamType("object", fields=(Param("a", ParamType("int"), 1, ""),)), "a mapping of a"),
        (ParamType("object"), "nothing: there are no parameters"),
        (ParamType("union", items=(ParamType("int"), ParamType("str"))), "a whole number or text"),
        (ParamType("any"), "anything"),
    ],
)
def test_types_in_words(kind: ParamType, text: str) -> None:
    assert describe_type(kind) == text


def test_defaults_are_plain() -> None:
    assert type(to_plain_default(Duration(1.5))) is float
    assert to_plain_default(Session())["graph_optimization_level"] == "all"
    assert to_plain_default({"k": (1, True, None)}) == {"k": [1, True, None]}


def test_parameters_are_chosen_by_the_kind_and_explained() -> None:
    chosen = {
        entry["if"]["properties"]["uses"]["const"]: entry["then"] for entry in SCHEMA["definitions"]["stage"]["allOf"]
    }
    assert list(chosen) == [kind.name for kind in list_kinds()]
    parameters = chosen["quantize/dynamic"]["properties"]["with"]
    assert parameters["properties"]["per_channel"] == {
        "type": ["boolean", "string"],
        "pattern": r"(^|[^$])\$\{",
        "patternErrorMessage": "expected true or false",
        "description": "One scale for each output channel: more exact if channels differ, and about as fast.",
        "default": False,
    }
    assert list(chosen["measure/latency"]["properties"]["needs"]["properties"]) == ["model", "reference"]
    assert "p50" in chosen["measure/latency"]["properties"]["gate"]["properties"]
    assert "oneOf" not in str(SCHEMA)


# Plain PyYAML reads merge keys and some scalars of yaml-1.2.yaml otherwise than orun and editors do.
AS_WRITTEN = [file for file in (*cases(VALID), *sorted(VALID.rglob("parts/**/*.yaml"))) if file.stem != "yaml-1.2"]


@pytest.mark.parametrize("file", AS_WRITTEN, ids=lambda file: file.stem)
def test_an_editor_accepts_good_files_as_they_are_written(file: Path) -> None:
    Draft7Validator(SCHEMA).validate(yaml.safe_load(file.read_bytes()))


def test_every_provider_of_the_installed_runtime_is_known() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    gone = {"ACLExecutionProvider", "NvTensorRTRTXExecutionProvider"}  # listed up to ONNX Runtime 1.31
    assert set(PROVIDERS) in (listed := set(onnxruntime.get_all_providers()), listed | gone)


def test_the_options_of_tensorrt_are_those_of_its_library() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    library = Path(onnxruntime.__file__).parent / "capi" / "libonnxruntime_providers_tensorrt.so"
    if not library.exists():
        pytest.skip("this build of ONNX Runtime has no TensorRT")
    data = library.read_bytes()
    options = PROVIDERS["TensorrtExecutionProvider"].options or {}
    assert [name for name in options if b"\0" + name.encode() + b"\0" not in data] == []


def test_session_options_are_those_that_a_session_takes() -> None:
    assert {param.name for param in list_params(Session)} == set(OPTIONS)
