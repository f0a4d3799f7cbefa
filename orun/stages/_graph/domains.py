"""Operator sets of a model: the version of the standard one, and those that the model uses, each once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import ModelProto


STANDARD = ("", "ai.onnx")  # both names of ONNX's own domain


def normalize_domain(name: str) -> str:
    """Return a domain by one name: the standard is empty."""
    return "" if name in STANDARD else name


def find_standard_opset(model: ModelProto) -> int:
    """Return the version of the standard operator set that a model uses; 0 if it uses none."""
    return max((item.version for item in model.opset_import if item.domain in STANDARD), default=0)


def tidy_domains(model: ModelProto) -> None:
    """Import each domain that the model uses, and no other, in place.

    ONNX Runtime imports all domains that it knows into a model that it saves. Its tools forget to import the domains of
    operators that they add.
    """
    from onnx import helper

    from orun.stages._graph.io import iter_nodes

    used = {*(node.domain for node in iter_nodes(model)), *(function.domain for function in model.functions)}
    named = {item.domain: item.version for item in reversed(model.opset_import)}
    if "ai.onnx" in named:  # another name of the standard, which is ""
        used.discard("")
    kept = {domain for domain in named if domain in used or domain in STANDARD}
    del model.opset_import[:]
    for domain in sorted(kept | used):
        model.opset_import.append(helper.make_opsetid(domain, named.get(domain, 1)))
