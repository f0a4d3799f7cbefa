"""Models that need the library of onnxruntime-extensions: their sessions load it, and no others."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import onnx
import pytest

from orun.core.targets import EXTENSIONS, Target
from orun.errors import MissingPackages
from orun.measure.extension_operators import add_extensions, list_imported_domains, needs_extensions
from orun.measure.session import open_session
from tests.measure.support import save_model

CONTRIB = "ai.onnx.contrib"


def upper(path: Path) -> Path:
    """A model that turns texts into capital letters by an operator of the library."""
    text = f'<ir_version: 9, opset_import: ["" : 18, "{CONTRIB}" : 1]> g (string[n] x) => (string[n] y) {{}}'
    model = onnx.parser.parse_model(text)
    model.graph.node.append(onnx.helper.make_node("StringUpper", ["x"], ["y"], domain=CONTRIB))
    onnx.save(model, path)
    return path


def test_domains_are_those_of_the_model(tmp_path: Path) -> None:
    model = onnx.load(save_model(tmp_path / "plain.onnx"))
    model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    model.metadata_props.add(key="note", value="ai.onnx.contrib")  # a text, and no domain
    onnx.save(model, tmp_path / "more.onnx")
    assert list_imported_domains(tmp_path / "more.onnx") == {item.domain for item in model.opset_import}
    assert not needs_extensions(tmp_path / "more.onnx")
    assert needs_extensions(upper(tmp_path / "upper.onnx"))


@pytest.mark.parametrize("content", [b"", b"\xff" * 40, b"\x42\x7f", b"no model at all", b"\x0b"])
def test_a_file_that_is_no_model_has_no_domains(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.onnx").write_bytes(content)
    assert list_imported_domains(tmp_path / "model.onnx") == set()


def test_a_session_loads_the_library_by_itself(tmp_path: Path) -> None:
    session = open_session(upper(tmp_path / "upper.onnx"), Target("cpu"))
    assert session.run(None, {"x": np.array(["ab", "c"], object)})[0].tolist() == ["AB", "C"]


def test_a_target_that_names_the_library_stays(tmp_path: Path) -> None:
    target = Target("cpu", session={"custom_op_libraries": [EXTENSIONS]})
    path = upper(tmp_path / "upper.onnx")
    assert add_extensions(path, target) is target
    assert open_session(path, target).run(None, {"x": np.array(["a"], object)})[0].tolist() == ["A"]
    other = Target("cpu", session={"custom_op_libraries": ["own.so"]})
    assert add_extensions(path, other).session["custom_op_libraries"] == ["own.so", EXTENSIONS]


def test_a_library_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "onnxruntime_extensions" else find_spec(name, *rest),
    )
    with pytest.raises(MissingPackages) as caught:
        add_extensions(upper(tmp_path / "upper.onnx"), Target("cpu"))
    assert str(caught.value) == (
        "upper.onnx has operators of onnxruntime-extensions, which is not installed\n"
        "  hint: install onnxruntime-extensions"
    )
