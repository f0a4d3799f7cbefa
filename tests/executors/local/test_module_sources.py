from __future__ import annotations

import pytest

from orun.executors.local.module_sources import Source, read_source


@pytest.mark.parametrize(
    ("text", "imports"),
    [
        ("import torch", {"torch"}),
        ("import torch.nn as nn, numpy", {"torch", "numpy"}),
        ("from transformers.models import bert", {"transformers"}),
        ("from . import helper\nfrom .helper import x", set()),
        ("def f():\n    import onnx", {"onnx"}),
        ("try:\n    import onnx\nexcept ImportError:\n    import numpy", {"onnx", "numpy"}),
        (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\nelse:\n    import onnx",
            {"typing", "onnx"},
        ),
        ("import typing\nif typing.TYPE_CHECKING:\n    import torch", {"typing"}),
        ("x = 'import torch'", set()),
        ("import = 1", set()),
        ("\0", set()),
        ("", set()),
    ],
)
def test_imports(text: str, imports: set[str]) -> None:
    assert read_source(text.encode()) == Source(frozenset(imports), sets_environment=False)


@pytest.mark.parametrize(
    ("text", "sets"),
    [
        ("os.environ['A'] = '1'", True),
        ("environ['A'] = '1'", True),
        ("del os.environ['A']", True),
        ("os.environ.setdefault('A', '1')", True),
        ("os.environ.update(A='1')", True),
        ("os.putenv('A', '1')", True),
        ("def f():\n    os.environ['A'] = '1'", True),
        ("os.environ['A']", False),
        ("os.environ.get('A')", False),
        ("other.update(A='1'); other['A'] = 1", False),
    ],
)
def test_setting_the_environment(text: str, sets: bool) -> None:
    assert read_source(text.encode()).sets_environment == sets


def test_an_encoding_of_its_own() -> None:
    assert read_source("# coding: latin-1\nimport torch  # \xe9\n".encode("latin-1")).imports == {"torch"}
