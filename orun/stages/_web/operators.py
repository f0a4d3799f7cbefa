"""Operators that the GPU and WebNN providers of onnxruntime-web have, by the tables in the package.

A table gives the versions of the operator set for which an operator has a kernel. WebAssembly has no table: its build
holds the kernels of ONNX Runtime's CPU provider.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from orun.errors import OrunError
from orun.stages._graph.domains import normalize_domain

if TYPE_CHECKING:
    from onnx import ModelProto

    from orun.measure.web.package import WebPackage

PROVIDERS = ("webgpu", "webnn", "webgl")
ROW = re.compile(r"^\|\s*\[?(\w+)\]?(?:\([^)]*\))?\s*\|([^|]*)\|", re.MULTILINE)
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
GROUP = re.compile(r"([\w.]+)\(([^)]*)\)")
VERSIONS = re.compile(r"(\d+)(?:(\+)|-(\d+))?")

Table = Mapping[tuple[str, str], list[tuple[int, float]]]  # (domain, operator) -> first and last versions


def read_table(package: WebPackage, provider: str) -> Table:
    """Return the operators of a provider with the versions of the operator set that it takes.

    Raises:
        OrunError: when the package has no such table.
    """
    path = package.folder / "docs" / f"{provider}-operators.md"
    text = path.read_text("utf-8") if path.is_file() else ""
    table: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for name, cell in ROW.findall(text):
        plain = LINK.sub(r"\1", cell)
        for domain, versions in GROUP.findall(plain) or [("ai.onnx", plain)]:
            if ranges := [
                (int(first), float("inf") if onwards else int(last or first))
                for first, onwards, last in VERSIONS.findall(versions)
            ]:
                table[normalize_domain(domain), name] = ranges
    if not table:
        raise OrunError(f"onnxruntime-web {package.version} has no table of operators for {provider}", why=str(path))
    return table


def count_nodes(model: ModelProto, table: Table) -> tuple[Counter[str], Counter[str]]:
    """Return the nodes that a table has, and those that it lacks, by operator."""
    from orun.stages._graph.io import iter_nodes

    opsets = {normalize_domain(item.domain): item.version for item in model.opset_import}
    own = {(function.domain, function.name) for function in model.functions}
    supported, missing = Counter[str](), Counter[str]()
    for node in iter_nodes(model):
        domain = normalize_domain(node.domain)
        if (node.domain, node.op_type) in own:
            continue
        version = opsets.get(domain, 1)
        ranges = table.get((domain, node.op_type), [])
        counted = supported if any(first <= version <= last for first, last in ranges) else missing
        counted[f"{domain}.{node.op_type}" if domain else node.op_type] += 1
    return supported, missing
