"""Manifests against KServe's published schema, by the package `kserve`: `python kserve_schema.py FOLDER...`.

KServe and Kubernetes generate the classes of their Python packages from their OpenAPI documents. Each key of a manifest
must be a field of its class, each value of the field's type, and what KServe's classes require must be there. It prints
a line for each problem.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kserve
import yaml
from kubernetes import client as kubernetes

KINDS = {"InferenceService": "V1beta1InferenceService", "ServingRuntime": "V1alpha1ServingRuntime"}
PLAIN: dict[str, tuple[type, ...]] = {
    "str": (str,), "int": (int,), "bool": (bool,), "float": (int, float), "object": (str, int),
}  # fmt: skip


def problems(value: Any, kind: str, place: str) -> Iterator[str]:
    """Yield what is wrong with a value of a type, named as in the `openapi_types` of the classes."""
    if kind in PLAIN:
        if not isinstance(value, PLAIN[kind]) or (isinstance(value, bool) and kind != "bool"):
            yield f"{place}: {value!r} is no {kind}"
    elif match := re.fullmatch(r"[Ll]ist\[(.+)\]", kind):
        for number, item in enumerate(value):
            yield from problems(item, match[1], f"{place}[{number}]")
    elif match := re.fullmatch(r"[Dd]ict[\[(]str, (.+)[\])]", kind):
        for key, item in value.items():
            yield from problems(item, match[1], f"{place}.{key}")
    else:
        yield from problems_of_fields(value, kind, place)


def problems_of_fields(value: dict[str, Any], kind: str, place: str) -> Iterator[str]:
    """Yield what is wrong with an object of a class."""
    model = getattr(kserve, kind, None) or getattr(kubernetes, kind)
    fields = {name: attribute for attribute, name in model.attribute_map.items()}
    for key, item in value.items():
        if key in fields:
            yield from problems(item, model.openapi_types[fields[key]], f"{place}.{key}")
        else:
            yield f"{place}: {kind} has no field {key}"
    if hasattr(kserve, kind):
        try:
            model(**{fields[key]: item for key, item in value.items() if key in fields})
        except ValueError as error:  # what is required is missing
            yield f"{place}: {error}"


for folder in map(Path, sys.argv[1:]):
    for file in sorted(folder.glob("*.yaml")):
        manifest = yaml.safe_load(file.read_text("utf-8"))
        for problem in problems(manifest, KINDS[manifest["kind"]], file.name):
            sys.stdout.write(f"{problem}\n")
