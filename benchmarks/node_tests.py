"""Correctness of stages on ONNX's own backend tests: 2000 small models with inputs and expected outputs.

    python -m benchmarks.node_tests                            every test and kind
    python -m benchmarks.node_tests --only 'test_conv*'        these tests
    python -m benchmarks.node_tests --rows FILE                save each result in this file, and continue from it

A kind first checks its result on made-up inputs. If the model itself cannot run these, the kind runs again with the
inputs of the test. Kinds that change weights (`optimize/float16`, `optimize/prune`, `quantize/`) get a model that
stores every input except the first, because most tests have no weights. `quantize/static` is calibrated with the inputs
of the test, `optimize/prune` removes nothing, and for `optimize/layout` inputs and outputs are transposed.

| verdict | meaning |
|---|---|
| right | the result yields the expected outputs |
| refused | the kind ended with an error for the user |
| wrong | other outputs, a result that does not run, or an unexpected exception |
| crashed | the process died |
| skipped | ONNX Runtime does not yield the expected outputs for the original model |

Outputs may be off by the test's own tolerance (at least 1e-5), after `optimize/float16` by 1e-2 absolute and relative,
and after a kind of `quantize/` by a tenth of the output's largest value.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import multiprocessing
import os
import random
import re
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatch
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import onnx

from benchmarks.spent import machine, table
from orun.environment import processor

if TYPE_CHECKING:
    from onnx.backend.test.case.test_case import TestCase

    from orun.stages._graph.differences import Tolerance

# Processors without VNNI saturate sums of 8-bit products: the model is right, and its outputs there are wrong.
INTEGERS = {"reduce_range": True} if processor.saturates() else {}
# Parameters of each kind, by its name and the variant.
KINDS: Mapping[str, Mapping[str, Any]] = {
    "optimize/simplify": {},
    "optimize/simplify onnxslim": {"tool": "onnxslim"},
    "optimize/graph": {},
    "convert/opset": {},
    "optimize/float16": {},
    "quantize/dynamic": INTEGERS,
    "optimize/shapes": {},
    "optimize/prune": {"proportion": 0.0},
    "optimize/layout": {},
    "quantize/static": INTEGERS,
    "quantize/weights": {"bits": 8},
}
OF_WEIGHTS = ("optimize/float16", "optimize/prune", "quantize/dynamic", "quantize/static", "quantize/weights")
CALIBRATED = "quantize/static"
SUITES = ("simple", "pytorch-converted", "pytorch-operator")  # in addition to the node tests
UP, DOWN = 25, 24  # versions of the operator set to convert to: UP for older models, DOWN for others
INPUTS = "inputs.npz"
PATIENCE = 120  # seconds without an answer after which a process is ended
CAST_TOLERANCE = 1e-2
INT8_TOLERANCE = 0.1

QUOTED = re.compile(r"'[^']*'")

Verdict = Literal["right", "refused", "wrong", "crashed", "skipped"]
VERDICTS: tuple[Verdict, ...] = ("right", "refused", "wrong", "crashed", "skipped")


@dataclass(frozen=True)
class Row:
    """Result of one test with one kind."""

    test: str
    kind: str
    verdict: Verdict
    why: str = ""


@dataclass(frozen=True)
class BackendTest:
    """A test with its inputs and outputs by name."""

    name: str
    model: onnx.ModelProto
    feed: Mapping[str, Any]
    expected: Mapping[str, Any]
    rtol: float
    atol: float


def select_tests(only: str) -> list[TestCase]:
    """Return the tests whose names match, in a random order, so that the first ones are a sample."""
    from onnx.backend.test.loader import load_model_tests, load_node_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy warns about the infinities in tests
        cases = load_node_model_tests() + [case for suite in SUITES for case in load_model_tests(kind=suite)]
    selected = sorted((case for case in cases if fnmatch(case.name, only)), key=lambda case: (case.name, case.kind))
    random.Random(0).shuffle(selected)
    return selected


def read_test(case: TestCase) -> BackendTest:
    """Return a test, read from its folder if it has one."""
    inputs: Sequence[Any]
    outputs: Sequence[Any]
    if case.model is not None and case.data_sets:
        model, (inputs, outputs) = case.model, case.data_sets[0]
    else:
        folder = Path(case.model_dir or "")
        model = onnx.load(folder / "model.onnx")
        inputs, outputs = (_stored(folder / "test_data_set_0", kind) for kind in ("input", "output"))
    stored = {tensor.name for tensor in model.graph.initializer}
    names = [value.name for value in model.graph.input if value.name not in stored]
    feed = dict(zip(names, map(_value, inputs), strict=False))
    expected = dict(zip((value.name for value in model.graph.output), map(_value, outputs), strict=False))
    return BackendTest(case.name, model, feed, expected, case.rtol, max(case.atol, 1e-5))


def _value(value: Any) -> Any:
    """Return a number or stored tensor of a test as an array."""
    import numpy as np

    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


def _stored(folder: Path, kind: str) -> list[Any]:
    count = len(list(folder.glob(f"{kind}_*.pb")))
    return [onnx.numpy_helper.to_array(onnx.load_tensor(folder / f"{kind}_{number}.pb")) for number in range(count)]


def examine(test: BackendTest, kinds: Sequence[str], report: Callable[[Row | None], None]) -> None:
    """Run the kinds on a test; report None once the original model has run, then the row of each kind."""
    forms = {"whole": test, "stored": store_inputs(test)}
    with tempfile.TemporaryDirectory() as name, chdir(name):
        for form, form_of_test in forms.items():
            Path(form).mkdir()
            onnx.save(form_of_test.model, Path(form, "model.onnx"))
        problems = {form: find_problem(Path(form), form_of_test, "") for form, form_of_test in forms.items()}
        report(None)
        for kind in kinds:
            form = "stored" if kind in OF_WEIGHTS else "whole"
            if problems[form]:
                report(Row(test.name, kind, "skipped", problems[form]))
            else:
                report(judge(forms[form], kind, Path(form).absolute()))


def store_inputs(test: BackendTest) -> BackendTest:
    """Return the test with a model that stores its tensor inputs, except the first."""
    import numpy as np
    from onnx import numpy_helper

    _, *rest = test.feed or [""]
    names = {name for name in rest if isinstance(test.feed[name], np.ndarray)}
    model = onnx.ModelProto()
    model.CopyFrom(test.model)
    inputs = [value for value in model.graph.input if value.name not in names]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.graph.initializer.extend(numpy_helper.from_array(test.feed[name], name) for name in sorted(names))
    model.ir_version = max(model.ir_version, 4)  # before version 4, initializers are inputs too
    return replace(test, model=model, feed={name: value for name, value in test.feed.items() if name not in names})


def find_problem(folder: Path, test: BackendTest, kind: str) -> str:
    """Return what is wrong with the outputs of the model in a folder, or an empty text."""
    from orun.stages._graph.sessions import open_model

    try:
        outputs = open_model(folder / "model.onnx", list(test.expected))(test.feed)
    except Exception as error:  # noqa: BLE001 - ONNX Runtime's errors share no base class but this
        return f"does not run: {_line(getattr(error, 'why', '') or error)}"
    for (name, right), value in zip(test.expected.items(), outputs, strict=True):
        if problem := _difference(right, value, lambda right: tolerance_of(test, kind, right)):
            return f"output {name!r}: {problem}"
    return ""


def tolerance_of(test: BackendTest, kind: str, right: Any) -> Tolerance:
    """Return the tolerance for an output."""
    import numpy as np

    from orun.stages._graph.differences import Tolerance

    if kind == "optimize/float16":
        return Tolerance(CAST_TOLERANCE, CAST_TOLERANCE)
    if kind.startswith("quantize/"):
        finite = right[np.isfinite(right)] if right.dtype.kind == "f" else right[:0]
        return Tolerance(test.atol + INT8_TOLERANCE * float(np.abs(finite).max(initial=0)), 0)
    return Tolerance(test.atol, test.rtol)


def _difference(right: Any, value: Any, tolerance: Callable[[Any], Tolerance]) -> str:
    import numpy as np

    from orun.stages._graph.differences import compare_values

    if right is None or value is None:
        return "" if right is value else "something instead of nothing, or the other way round"
    if isinstance(right, list):
        return compare_values(right, value, tolerance(np.empty(0)))[0]
    right = np.asarray(right)
    return compare_values(right, np.asarray(value), tolerance(right))[0]


def judge(test: BackendTest, kind: str, source: Path) -> Row:
    """Run a kind on a test, with made-up inputs, or with those of the test if the model cannot run made-up ones."""
    from orun.errors import OrunError

    params = dict(KINDS[kind])
    stored_inputs = _write_inputs(source.parent / INPUTS, test)
    if kind == "convert/opset":
        params["version"] = _version(test.model)
    if kind == CALIBRATED:
        params["dataset"] = stored_inputs
    try:
        try:
            result = run(kind, source, params)
        except OrunError as refusal:
            if not refusal.problem.startswith("the model before it") or not stored_inputs:
                raise
            result = run(kind, source, {**params, "inputs": stored_inputs})
    except OrunError as refusal:
        return Row(test.name, kind, "refused", f"{refusal.problem}: {_line(refusal.why)}")
    except Exception as error:  # noqa: BLE001 - a user would see the exception
        return Row(test.name, kind, "wrong", f"{type(error).__name__}: {_line(error)}")
    problem = find_problem(result, transpose_images(test) if kind == "optimize/layout" else test, kind)
    return Row(test.name, kind, "wrong" if problem else "right", problem)


def _version(model: onnx.ModelProto) -> int:
    version = max((item.version for item in model.opset_import if item.domain in ("", "ai.onnx")), default=UP)
    return UP if version < UP else DOWN


def transpose_images(test: BackendTest) -> BackendTest:
    """Return the test with the channels of its images last."""
    import numpy as np

    from orun.stages.optimize.layout import IMAGES, order_axes

    values = (*test.model.graph.input, *test.model.graph.output)
    images = {value.name for value in values if len(value.type.tensor_type.shape.dim) == IMAGES}

    def transpose(arrays: Mapping[str, Any]) -> dict[str, Any]:
        order = order_axes(IMAGES, to_last=True)
        return {name: np.transpose(value, order) if name in images else value for name, value in arrays.items()}

    return replace(test, feed=transpose(test.feed), expected=transpose(test.expected))


def _write_inputs(path: Path, test: BackendTest) -> Mapping[str, Any] | None:
    """Write the inputs of a test as a dataset of one example; return its source, or None unless all are tensors."""
    import numpy as np

    if not test.feed or not all(isinstance(value, np.ndarray | np.generic) for value in test.feed.values()):
        return None
    examples: dict[str, Any] = {name: np.asarray(value)[None] for name, value in test.feed.items()}
    np.savez(path, **examples)
    types = {name: "float64" for name, value in test.feed.items() if value.dtype == "float64"}
    return {"path": path.name, "types": types}


def run(kind: str, source: Path, params: Mapping[str, Any]) -> Path:
    """Run a kind as a stage's process does, with the check of its output; return the output folder."""
    from benchmarks.stage_context import make_context
    from orun.stages.ensure import check_output
    from orun.stages.params import build
    from orun.stages.registry import import_kind

    uses = kind.partition(" ")[0]
    module = import_kind(uses)
    work = Path(tempfile.mkdtemp(dir=source.parent))
    output, working_folder = work / "output", work / "work"
    output.mkdir()
    working_folder.mkdir()
    context = make_context(uses, source.parent, output, {"model": source})
    with chdir(working_folder):
        module.run(context, build(module.Params, params))
    check_output(uses, module.SPEC, output, context.inputs)
    return output


def _line(error: object) -> str:
    """Return the first line of a message, as a cell of a table."""
    return next(iter(str(error).strip().splitlines()), "").replace("|", "/")[:160]


def rows(case: TestCase, kinds: Sequence[str]) -> Iterator[Row]:
    """Yield the row of every kind. Each test runs in its own process; after a crash the other kinds get a new one."""
    kinds_left = list(kinds)
    while kinds_left:
        ran = False
        reported, cause = _ask_process(case, kinds_left)
        for row in reported:
            ran = True
            if row:
                kinds_left.remove(row.kind)
                yield row
        if cause and not ran:
            yield from (
                Row(case.name, kind, "skipped", f"ONNX Runtime dies of the untouched model: {cause}")
                for kind in kinds_left
            )
            return
        if cause and kinds_left:
            yield Row(case.name, kinds_left.pop(0), "crashed", cause)


def _ask_process(case: TestCase, kinds: Sequence[str]) -> tuple[list[Row | None], str]:
    """Return the reports of a process on a test, and how it died, if it did."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_answer, args=(theirs, case, kinds))
    process.start()
    theirs.close()
    reported: list[Row | None] = []
    late = False
    try:
        while not (late := not ours.poll(PATIENCE)):
            reported.append(ours.recv())
    except EOFError:
        process.join(PATIENCE)
    process.kill()
    process.join()
    if late:
        return reported, f"no answer in {PATIENCE} s"
    return reported, f"exit status {process.exitcode}" if process.exitcode else ""


def _answer(pipe: Connection[Any, Any], case: TestCase, kinds: Sequence[str]) -> None:
    warnings.simplefilter("ignore")  # the output of the tools does not matter
    with Path(os.devnull).open("w") as null:
        for stream in (1, 2):
            os.dup2(null.fileno(), stream)
    examine(read_test(case), kinds, pipe.send)


def summary(results: Sequence[Row], kinds: Sequence[str]) -> str:
    """Return tables of the verdicts, of the reasons for refusals, and of every wrong or crashed test."""
    counts = Counter((row.kind, row.verdict) for row in results)
    counted = table(
        ["kind", *VERDICTS], [[kind, *(str(counts[kind, verdict]) for verdict in VERDICTS)] for kind in kinds]
    )
    reasons = Counter(
        (row.kind, QUOTED.sub("...", row.why.partition(": ")[0])) for row in results if row.verdict == "refused"
    )
    refused = [[kind, why, str(number)] for (kind, why), number in sorted(reasons.items(), key=lambda item: -item[1])]
    bad = [[row.kind, row.test, row.verdict, row.why] for row in results if row.verdict in ("wrong", "crashed")]
    parts = [counted, table(["kind", "refused because", "tests"], refused)]
    return "\n\n".join([*parts, table(["kind", "test", "verdict", "what"], sorted(bad))])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the tests and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="*", help="tests whose names match this pattern")
    parser.add_argument("--limit", type=int, help="at most so many tests")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS, help="these kinds")
    parser.add_argument("--rows", type=Path, help="a file of results, one a line, to go on from")
    options = parser.parse_args(arguments)
    kept = options.rows.read_text("utf-8").splitlines() if options.rows and options.rows.exists() else []
    results = [Row(**json.loads(line)) for line in kept]
    done = {(row.test, row.kind) for row in results}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for library in ("onnxruntime.quantization", "onnxruntime.transformers.float16", "onnxsim", "onnxslim"):
            importlib.import_module(library)  # once, for all the processes to come
        cases = select_tests(options.only)[: options.limit]
    gc.freeze()
    for number, case in enumerate(cases):
        left = [kind for kind in options.kinds if (case.name, kind) not in done]
        for row in rows(case, left):
            results.append(row)
            if options.rows:
                with options.rows.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(row)) + "\n")
        print(f"{number + 1}/{len(cases)} {case.name}", file=sys.stderr)
    chosen = {case.name for case in cases}
    print(f"{len(chosen)} tests of onnx {onnx.__version__}; {machine()}\n")
    print(summary([row for row in results if row.test in chosen and row.kind in options.kinds], options.kinds))


if __name__ == "__main__":
    main()
