from __future__ import annotations

import onnx

from orun.stages._graph.domains import tidy_domains


def tidied(imports: str, body: str) -> dict[str, int]:
    model = onnx.parser.parse_model(f"""
    <ir_version: 9, opset_import: [{imports}]>
    graph (float[n] x) => (float[n] y) {{ {body} }}
    """)
    tidy_domains(model)
    assert len(model.opset_import) == len({item.domain for item in model.opset_import})
    return {item.domain: item.version for item in model.opset_import}


def test_what_is_used_and_no_more() -> None:
    assert tidied('"" : 20, "ai.onnx.ml" : 5, "com.mine" : 3', "y = com.mine.Op (x)") == {"": 20, "com.mine": 3}


def test_what_is_forgotten_is_named() -> None:
    assert tidied('"" : 20', "y = com.microsoft.Gelu (x)") == {"": 20, "com.microsoft": 1}


def test_what_is_named_twice() -> None:
    assert tidied('"" : 20, "" : 20', "y = Relu (x)") == {"": 20}


def test_the_standard_by_its_other_name() -> None:
    assert tidied('"ai.onnx" : 20', "y = Relu (x)") == {"ai.onnx": 20}
