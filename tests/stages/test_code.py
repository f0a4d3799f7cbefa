from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orun.errors import UsageError
from orun.stages.code import load_function


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Remove the modules and path entries of a test after it."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_function_of_a_file(tmp_path: Path) -> None:
    write(tmp_path / "orun_t_model.py", "def load():\n    return __name__, __file__\n")
    assert load_function(tmp_path, "orun_t_model.py:load")() == ("orun_t_model", str(tmp_path / "orun_t_model.py"))


def test_imports_from_beside_the_file_and_from_the_pipeline_s_folder(tmp_path: Path) -> None:
    write(
        tmp_path / "data" / "orun_t_docs.py",
        "import orun_t_beside, orun_t_top\ndef f(): return orun_t_beside.X, orun_t_top.X",
    )
    write(tmp_path / "data" / "orun_t_beside.py", "X = 'beside'")
    write(tmp_path / "orun_t_top.py", "X = 'top'")
    assert load_function(tmp_path, "data/orun_t_docs.py:f")() == ("beside", "top")


def test_a_file_is_loaded_once(tmp_path: Path) -> None:
    write(tmp_path / "orun_t_one.py", "calls = []\ndef f():\n    calls.append(1)\n    return len(calls)\n")
    write(tmp_path / "orun_t_two.py", "import orun_t_one\ndef g(): return orun_t_one.f()\n")
    assert load_function(tmp_path, "orun_t_one.py:f")() == 1
    assert load_function(tmp_path, "orun_t_two.py:g")() == 2
    assert load_function(tmp_path, "orun_t_one.py:f")() == 3


@pytest.mark.parametrize("name", ["profile.py", "pytest.py"])
def test_a_file_that_is_named_like_another_module(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, "def f(): return 'mine'")
    write(tmp_path / "other" / name, "def f(): return 'other'")
    assert load_function(tmp_path, f"{name}:f")() == "mine"
    assert load_function(tmp_path, f"other/{name}:f")() == "other"
    assert sys.modules["pytest"] is pytest


def test_cached_byte_code_is_neither_trusted_nor_written(tmp_path: Path) -> None:
    path = write(tmp_path / "orun_t_code.py", "def f(): return 1")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    assert load_function(tmp_path, "orun_t_code.py:f")() == 1
    assert not (tmp_path / "__pycache__").exists()
    del sys.modules["orun_t_code"]
    write(path, "def f(): return 2")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    assert load_function(tmp_path, "orun_t_code.py:f")() == 2


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load_function(tmp_path, "gone.py:f")
    assert str(caught.value) == f"no file gone.py\n  gone.py:f is looked for in {tmp_path}"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lost", "no function 'lost' in orun_t_code.py\n  it defines: Model, load"),
        ("CONSTANT", "orun_t_code.py:CONSTANT is of type int, not a function\n  hint: def load(): return CONSTANT"),
    ],
)
def test_no_such_function(tmp_path: Path, name: str, message: str) -> None:
    write(tmp_path / "orun_t_code.py", "CONSTANT = 1\ndef load(): pass\ndef _private(): pass\nclass Model: pass\n")
    with pytest.raises(UsageError) as caught:
        load_function(tmp_path, f"orun_t_code.py:{name}")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "takes", "why"),
    [
        ("def f(x): pass", (), "it is called as f(), and is f(x) at orun_t_takes.py:1"),
        (
            "\n\ndef f(): pass",
            ("outputs", "dataset"),
            "it is called as f(outputs, dataset), and is f() at orun_t_takes.py:3",
        ),
        ("class f:\n    def __init__(self, x): pass", (), "it is called as f(), and is f(x)"),
    ],
)
def test_a_function_that_cannot_be_called_so(tmp_path: Path, text: str, takes: tuple[str, ...], why: str) -> None:
    write(tmp_path / "orun_t_takes.py", text)
    with pytest.raises(UsageError) as caught:
        load_function(tmp_path, "orun_t_takes.py:f", takes)
    assert str(caught.value) == f"orun_t_takes.py:f takes other arguments\n  {why}"


@pytest.mark.parametrize(
    ("text", "answer"),
    [("def f(x=1, *, y=2): return x, y", (1, 2)), ("f = int", 0), ("def f(*a, **b): return a, b", ((), {}))],
)
def test_a_function_that_can_be_called_so(tmp_path: Path, text: str, answer: object) -> None:
    write(tmp_path / "orun_t_takes.py", text)
    assert load_function(tmp_path, "orun_t_takes.py:f", ())() == answer


@pytest.mark.skipif(sys.version_info < (3, 14), reason="annotations are evaluated as the function is made")
def test_annotations_may_name_what_only_type_checkers_import(tmp_path: Path) -> None:
    write(tmp_path / "orun_t_takes.py", "def f(x: Tensor): return 1")
    assert load_function(tmp_path, "orun_t_takes.py:f", ("x",))(0) == 1
    with pytest.raises(UsageError) as caught:
        load_function(tmp_path, "orun_t_takes.py:f", ())
    why = "it is called as f(), and is f(x: Tensor) at orun_t_takes.py:1"
    assert str(caught.value) == f"orun_t_takes.py:f takes other arguments\n  {why}"


def test_a_file_that_fails_is_not_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "orun_t_bad.py", "raise ValueError('bad')")
    with pytest.raises(ValueError, match=r"^bad$"):
        load_function(tmp_path, "orun_t_bad.py:f")
    assert "orun_t_bad" not in sys.modules
    write(path, "def f(): return 1")
    assert load_function(tmp_path, "orun_t_bad.py:f")() == 1
