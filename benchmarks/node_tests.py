"""Whether stages keep ONNX's own backend tests right: 2000 small models with inputs and the outputs they must give.

    python -m benchmarks.node_tests                            every test and kind
    python -m benchmarks.node_tests --only 'test_conv*'        these tests
    python -m benchmarks.node_tests --rows FILE                note each result there, and go on from what is there

A kind first checks its result on inputs that it makes up; where the model itself cannot run those, it is run again with
the inputs of the test. Kinds that change weights (`optimize/float16`, `optimize/prune`, those of `quantize/`) get the
model with every input but the first stored in it, since most of the tests have none. `quantize/static` is calibrated
with the inputs of the test, `optimize/prune` is to take nothing away, and what `optimize/layout` turned is asked and
answered turned. `right`: what a kind left gives the test's outputs.
`refused`: it ended with an error for the user. `wrong`: other outputs, a result that does not run, or an error that is
no message. `crashed`: the process died. `skipped`: ONNX Runtime does not give the test's outputs for the untouched one.

Outputs may be off by the test's own tolerance (at least 1e-5); after `optimize/float16` by 1e-2 absolute and relative;
after a kind of `quantize/` by a tenth of the largest value of the output.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import logging
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

# Without VNNI processors cut sums of 8-bit products off: the model is right, and the answers there are not.
INTEGERS = {"reduce_range": True} if processor.saturates() else {}
# Parameters of each kind, by its name and what tells it from the same kind otherwise.
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
SUITES = ("simple", "pytorch-converted", "pytorch-operator")  # beside the node tests
UP, DOWN = 25, 24  # versions of the operator set that models are converted to: below UP up, and from it on down
INPUTS = "inputs.npz"
PATIENCE = 120  # seconds without an answer after which a process is ended
CAST_TOLERANCE = 1e-2
INT8_TOLERANCE = 0.1

QUOTED = re.compile(r"'[^']*'")

Verdict = Literal["right", "refused", "wrong", "crashed", "skipped"]
VERDICTS: tuple[Verdict, ...] = ("right", "refused", "wrong", "crashed", "skipped")


@dataclass(frozen=True)
class Row:
    """What became of one test in one kind."""

    test: str
    kind: str
    verdict: Verdict
    why: str = ""


@dataclass(frozen=True)
class Question:
    """A test with its inputs and outputs by name."""

    name: str
    model: onnx.ModelProto
    feed: Mapping[str, Any]
    expected: Mapping[str, Any]
    rtol: float
    atol: float


def questions(only: str) -> list[TestCase]:
    """The tests whose names match, in a random order, so that a part is a sample."""
    from onnx.backend.test.loader import load_model_tests, load_node_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numpy, about the infinities that are tested
        found = load_node_model_tests() + [case for suite in SUITES for case in load_model_tests(kind=suite)]
    chosen = sorted((case for case in found if fnmatch(case.name, only)), key=lambda case: (case.name, case.kind))
    random.Random(0).shuffle(chosen)
    return chosen


def question(case: TestCase) -> Question:
    """A test, read from its folder where it has one."""
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
    return Question(case.name, model, feed, expected, case.rtol, max(case.atol, 1e-5))


def _value(given: Any) -> Any:
    """An array where a test has a number or a stored tensor."""
    import numpy as np

    if isinstance(given, onnx.TensorProto):
        return onnx.numpy_helper.to_array(given)
    return np.asarray(given) if isinstance(given, np.generic) else given


def _stored(folder: Path, kind: str) -> list[Any]:
    count = len(list(folder.glob(f"{kind}_*.pb")))
    return [onnx.numpy_helper.to_array(onnx.load_tensor(folder / f"{kind}_{number}.pb")) for number in range(count)]


def examine(asked: Question, kinds: Sequence[str], say: Callable[[Row | None], None]) -> None:
    """Run the kinds on a test; `say` hears None once the untouched model has run, and the row of each kind."""
    forms = {"whole": asked, "stored": stored(asked)}
    with tempfile.TemporaryDirectory() as name, chdir(name):
        for form, one in forms.items():
            Path(form).mkdir()
            onnx.save(one.model, Path(form, "model.onnx"))
        problems = {form: answer(Path(form), one, "") for form, one in forms.items()}
        say(None)
        for kind in kinds:
            form = "stored" if kind in OF_WEIGHTS else "whole"
            if problems[form]:
                say(Row(asked.name, kind, "skipped", problems[form]))
            else:
                say(judged(forms[form], kind, Path(form).absolute()))


def stored(asked: Question) -> Question:
    """The same test with the tensors that the model takes after its first input stored in it."""
    import numpy as np
    from onnx import numpy_helper

    _, *rest = asked.feed or [""]
    names = {name for name in rest if isinstance(asked.feed[name], np.ndarray)}
    model = onnx.ModelProto()
    model.CopyFrom(asked.model)
    kept = [value for value in model.graph.input if value.name not in names]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.graph.initializer.extend(numpy_helper.from_array(asked.feed[name], name) for name in sorted(names))
    model.ir_version = max(model.ir_version, 4)  # before it, what is stored is an input too
    return replace(asked, model=model, feed={name: value for name, value in asked.feed.items() if name not in names})


def answer(folder: Path, asked: Question, kind: str) -> str:
    """What is wrong with the outputs of the model in a folder, if anything."""
    from orun.stages._graph.sessions import session

    try:
        found = session(folder / "model.onnx", list(asked.expected))(asked.feed)
    except Exception as error:  # noqa: BLE001 - ONNX Runtime's errors share no base class but this
        return f"does not run: {_line(getattr(error, 'why', '') or error)}"
    for (name, right), value in zip(asked.expected.items(), found, strict=True):
        if problem := _difference(right, value, lambda right: allowed(asked, kind, right)):
            return f"output {name!r}: {problem}"
    return ""


def allowed(asked: Question, kind: str, right: Any) -> Tolerance:
    """How far an output may be off."""
    import numpy as np

    from orun.stages._graph.differences import Tolerance

    if kind == "optimize/float16":
        return Tolerance(CAST_TOLERANCE, CAST_TOLERANCE)
    if kind.startswith("quantize/"):
        finite = right[np.isfinite(right)] if right.dtype.kind == "f" else right[:0]
        return Tolerance(asked.atol + INT8_TOLERANCE * float(np.abs(finite).max(initial=0)), 0)
    return Tolerance(asked.atol, asked.rtol)


def _difference(right: Any, value: Any, tolerance: Callable[[Any], Tolerance]) -> str:
    import numpy as np

    from orun.stages._graph.differences import compare_values

    if right is None or value is None:
        return "" if right is value else "something instead of nothing, or the other way round"
    if isinstance(right, list):
        return compare_values(right, value, tolerance(np.empty(0)))[0]
    right = np.asarray(right)
    return compare_values(right, np.asarray(value), tolerance(right))[0]


def judged(asked: Question, kind: str, source: Path) -> Row:
    """What a kind makes of a test: with inputs that it makes up, or those of the test where it cannot use such."""
    from orun.errors import OrunError

    given = dict(KINDS[kind])
    stored_inputs = _write_inputs(source.parent / INPUTS, asked)
    if kind == "convert/opset":
        given["version"] = _version(asked.model)
    if kind == CALIBRATED:
        given["dataset"] = stored_inputs
    try:
        try:
            made = run(kind, source, given)
        except OrunError as refusal:
            if not refusal.what.startswith("the model before it") or not stored_inputs:
                raise
            made = run(kind, source, {**given, "inputs": stored_inputs})
    except OrunError as refusal:
        return Row(asked.name, kind, "refused", f"{refusal.what}: {_line(refusal.why)}")
    except Exception as error:  # noqa: BLE001 - a user would meet it as it is
        return Row(asked.name, kind, "wrong", f"{type(error).__name__}: {_line(error)}")
    problem = answer(made, turned(asked) if kind == "optimize/layout" else asked, kind)
    return Row(asked.name, kind, "wrong" if problem else "right", problem)


def _version(model: onnx.ModelProto) -> int:
    named = max((item.version for item in model.opset_import if item.domain in ("", "ai.onnx")), default=UP)
    return UP if named < UP else DOWN


def turned(asked: Question) -> Question:
    """The same test with the channels of its images last."""
    import numpy as np

    from orun.stages.optimize.layout import IMAGES, permutation

    values = (*asked.model.graph.input, *asked.model.graph.output)
    images = {value.name for value in values if len(value.type.tensor_type.shape.dim) == IMAGES}

    def turn(given: Mapping[str, Any]) -> dict[str, Any]:
        order = permutation(IMAGES, to_last=True)
        return {name: np.transpose(value, order) if name in images else value for name, value in given.items()}

    return replace(asked, feed=turn(asked.feed), expected=turn(asked.expected))


def _write_inputs(path: Path, asked: Question) -> Mapping[str, Any] | None:
    """The inputs of a test as a dataset of one example, where all are tensors."""
    import numpy as np

    if not asked.feed or not all(isinstance(value, np.ndarray | np.generic) for value in asked.feed.values()):
        return None
    examples: dict[str, Any] = {name: np.asarray(value)[None] for name, value in asked.feed.items()}
    np.savez(path, **examples)
    types = {name: "float64" for name, value in asked.feed.items() if value.dtype == "float64"}
    return {"path": path.name, "types": types}


def run(kind: str, source: Path, params: Mapping[str, Any]) -> Path:
    """Run a kind as its own process would, with the check of what it leaves; the folder that it filled."""
    from orun.stages.contract import Context
    from orun.stages.ensure import check_output
    from orun.stages.params import build
    from orun.stages.registry import module_of

    uses = kind.partition(" ")[0]
    module = module_of(uses)
    work = Path(tempfile.mkdtemp(dir=source.parent))
    output, scratch = work / "output", work / "scratch"
    output.mkdir()
    scratch.mkdir()
    context = Context(
        stage=uses,
        inputs={"model": source},
        output=output,
        root=source.parent,
        target=None,
        seed=0,
        timeout=None,
        lineage=None,
        open_log=lambda: logging.getLogger("node_tests"),
        progress=lambda *_: None,
    )
    with chdir(scratch):
        module.run(context, build(module.Params, params))
    check_output(uses, module.SPEC, output, context.inputs)
    return output


def _line(error: object) -> str:
    """The first line of a message, as one cell of a table."""
    return next(iter(str(error).strip().splitlines()), "").replace("|", "/")[:160]


def rows(case: TestCase, kinds: Sequence[str]) -> Iterator[Row]:
    """The row of every kind; each test has a process of its own, and what dies of it another for the kinds after it."""
    left = list(kinds)
    while left:
        ran = False
        said, how = _heard(case, left)
        for row in said:
            ran = True
            if row:
                left.remove(row.kind)
                yield row
        if how and not ran:
            yield from (
                Row(case.name, kind, "skipped", f"ONNX Runtime dies of the untouched model: {how}") for kind in left
            )
            return
        if how and left:
            yield Row(case.name, left.pop(0), "crashed", how)


def _heard(case: TestCase, kinds: Sequence[str]) -> tuple[list[Row | None], str]:
    """What a process says of a test, and how it died; nothing when it came to its end."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_say, args=(theirs, case, kinds))
    process.start()
    theirs.close()
    said: list[Row | None] = []
    late = False
    try:
        while not (late := not ours.poll(PATIENCE)):
            said.append(ours.recv())
    except EOFError:
        process.join(PATIENCE)
    process.kill()
    process.join()
    if late:
        return said, f"no answer in {PATIENCE} s"
    return said, f"exit status {process.exitcode}" if process.exitcode else ""


def _say(pipe: Connection[Any, Any], case: TestCase, kinds: Sequence[str]) -> None:
    warnings.simplefilter("ignore")  # what the tools warn of is not the result, nor what they print
    with Path(os.devnull).open("w") as nowhere:
        for stream in (1, 2):
            os.dup2(nowhere.fileno(), stream)
    examine(question(case), kinds, pipe.send)


def summary(found: Sequence[Row], kinds: Sequence[str]) -> str:
    """How many of each verdict, why tests were refused, and every one that is wrong or crashed."""
    counts = Counter((row.kind, row.verdict) for row in found)
    counted = table(["kind", *VERDICTS], [[kind, *(str(counts[kind, one]) for one in VERDICTS)] for kind in kinds])
    reasons = Counter(
        (row.kind, QUOTED.sub("...", row.why.partition(": ")[0])) for row in found if row.verdict == "refused"
    )
    refused = [[kind, why, str(number)] for (kind, why), number in sorted(reasons.items(), key=lambda item: -item[1])]
    bad = [[row.kind, row.test, row.verdict, row.why] for row in found if row.verdict in ("wrong", "crashed")]
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
    found = [Row(**json.loads(line)) for line in kept]
    done = {(row.test, row.kind) for row in found}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for library in ("onnxruntime.quantization", "onnxruntime.transformers.float16", "onnxsim", "onnxslim"):
            importlib.import_module(library)  # once, for all the processes to come
        cases = questions(options.only)[: options.limit]
    gc.freeze()
    for number, case in enumerate(cases):
        left = [kind for kind in options.kinds if (case.name, kind) not in done]
        for row in rows(case, left):
            found.append(row)
            if options.rows:
                with options.rows.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(row)) + "\n")
        print(f"{number + 1}/{len(cases)} {case.name}", file=sys.stderr)
    chosen = {case.name for case in cases}
    print(f"{len(chosen)} tests of onnx {onnx.__version__}; {machine()}\n")
    print(summary([row for row in found if row.test in chosen and row.kind in options.kinds], options.kinds))


if __name__ == "__main__":
    main()
