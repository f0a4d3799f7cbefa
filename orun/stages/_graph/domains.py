"""The operator sets that a model names: those that it uses, each once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import ModelProto


STANDARD = ("", "ai.onnx")


def tidy_domains(model: ModelProto) -> None:
    """Name each domain that the model uses and no other.

    ONNX Runtime names all that it knows in a model that it saves, and its tools forget that of the operators which
    they put in.
    """
    from onnx import helper

    from orun.stages._graph.io import nodes

    used = {*(node.domain for node in nodes(model)), *(function.domain for function in model.functions)}
    named = {item.domain: item.version for item in reversed(model.opset_import)}
    if "ai.onnx" in named:  # another name of the standard, which is ""
        used.discard("")
    kept = {domain for domain in named if domain in used or domain in STANDARD}
    del model.opset_import[:]
    for domain in sorted(kept | used):
        model.opset_import.append(helper.make_opsetid(domain, named.get(domain, 1)))
