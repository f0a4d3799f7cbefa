"""Inspection of a function in a Python file that returns a model."""

from __future__ import annotations

import ast
from pathlib import Path

from orun.errors import UsageError
from orun.fs.os_errors import quote
from orun.scaffold.model_facts import InputFact, ModelFacts
from orun.stages.code import load_function
from orun.stages.codefile import EVERYTHING, CodeFile, Function, parse
from orun.text.suggestions import find_closest


def inspect_function(source: str, name: str, inputs: tuple[InputFact, ...]) -> ModelFacts:
    """Call the function as a stage would, and inspect the returned model by its framework.

    Args:
        source: `file.py:function`, as the command line has it.
        name: the same, relative to the folder of the pipeline file.
        inputs: as declared.

    Raises:
        PipelineError: when the file is not Python.
        UsageError: when there is no such function, or it returns no model.
    """
    from orun.scaffold.sklearn_inspection import inspect_estimator
    from orun.scaffold.torch_inspection import inspect_module, list_forward_parameters

    path, function = Path(source.rpartition(":")[0]), source.rpartition(":")[2]
    if not path.is_file():
        raise UsageError(f"there is no {path}", hint="name a Python file and a function in it: file.py:function")
    file = parse(path)
    if not {function, EVERYTHING} & {*file.list_names()}:
        raise build_no_function_error(path, f"{path} has no function {function!r}", function)
    _require_no_arguments(file, path, function)
    model = load_function(path.parent, f"{path.name}:{function}", ())()
    frameworks = {base.__module__.partition(".")[0] for base in type(model).__mro__}
    if "torch" in frameworks:
        return inspect_module(name, model, list_forward_parameters(model), inputs)
    if frameworks & {"keras", "tensorflow", "tf_keras"}:
        return ModelFacts("tensorflow", name, inputs)
    if hasattr(model, "predict") or hasattr(model, "transform"):
        return inspect_estimator(name, model)
    raise UsageError(
        f"{name} must return a model",
        why=f"it returned {type(model).__name__}; expected a PyTorch module, a Keras model or a scikit-learn estimator",
        hint="orun stages convert/torch",
    )


def build_no_function_error(path: Path, problem: str, wanted: str = "") -> UsageError:
    """Return the error for a Python file that lacks a function, with a hint on one that may return the model."""
    names = _list_callables(parse(path))
    why = f"it has {', '.join(names)}" if names else "it has none"
    function = find_closest(wanted, names) or next(iter(names), "FUNCTION")
    return UsageError(problem, why=why, hint=f"orun init {quote(path)}:{function}")


def _require_no_arguments(file: CodeFile, path: Path, function: str) -> None:
    """Refuse a function or class that cannot be called without arguments; one that is imported is called as it is."""
    nodes = {node.name: node for node in file.tree.body if isinstance(node, Function | ast.ClassDef)}
    if function in nodes and _takes_arguments(nodes[function]):
        raise UsageError(
            f"{path}:{function} needs arguments, and orun has none to give",
            hint=f"write a function that passes them: def load(): return {function}(...); then: "
            f"orun init {quote(path)}:load",
        )


def _list_callables(file: CodeFile) -> list[str]:
    """Return the public functions and classes of a file, first those that can be called without arguments."""
    nodes = [
        *(node for node in file.tree.body if isinstance(node, Function)),
        *(node for node in file.tree.body if isinstance(node, ast.ClassDef)),
    ]
    return [node.name for node in sorted(nodes, key=_takes_arguments) if not node.name.startswith("_")]


def _takes_arguments(node: Function | ast.ClassDef) -> bool:
    """Return whether a function, or the `__init__` of a class, has parameters without defaults."""
    if isinstance(node, ast.ClassDef):
        methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
        return "__init__" in methods and _count_required(methods["__init__"]) > 1  # besides self
    return _count_required(node) > 0


def _count_required(function: Function) -> int:
    arguments = function.args
    by_keyword = sum(default is None for default in arguments.kw_defaults)
    return len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults) + by_keyword
