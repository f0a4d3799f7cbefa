from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import onnx
import pytest

from orun.errors import OrunError, StageFailed
from tests.stages.conftest import MODULES, SCORER, TINY_BERT
from tests.stages.models import shapes_of
from tests.stages.support import StageRun, run_stage
from tests.thin import mostly_slow

EXPORTERS = ("dynamo", "torchscript")


def convert(folder: Path, **params: Any) -> StageRun:
    return run_stage("convert/torch", folder, params, root=MODULES)


def refusal(folder: Path, **params: Any) -> str:
    with pytest.raises(OrunError) as caught:
        convert(folder, **params)
    return str(caught.value)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_names_axes_and_figures_and_nothing_of_this_machine(tmp_path: Path, exporter: str) -> None:
    run = convert(tmp_path, **SCORER, exporter=exporter)
    model = onnx.load(run.model)
    onnx.checker.check_model(model, full_check=True)
    assert shapes_of(model.graph.input) == {"ids": ["batch", "length"], "mask": ["batch", "length"]}
    assert shapes_of(model.graph.output) == {"embedding": ["batch", "length", 8], "scores": ["batch", 3]}
    assert run.value("size") == run.model.stat().st_size
    assert run.value("nodes") == len(model.graph.node)
    assert run.value("max_abs_error") < 1e-6
    assert [path.name for path in run.output.iterdir()] == ["model.onnx"]
    of_this_machine = (str(Path.home()), str(MODULES), "site-packages")
    data = run.model.read_bytes()
    assert [text for text in of_this_machine if text.encode() in data] == []


@pytest.mark.parametrize("exporter", mostly_slow(EXPORTERS, "torchscript"))
def test_a_module_in_training_mode_is_exported_for_evaluation(tmp_path: Path, exporter: str) -> None:
    inputs = {"input": {"shape": ["batch", 4]}}
    run = convert(tmp_path, model="small.py:dropout", inputs=inputs, outputs=["y"], exporter=exporter)
    assert run.value("max_abs_error") < 1e-6


@pytest.mark.parametrize("exporter", mostly_slow(EXPORTERS, "torchscript"))
def test_an_input_and_a_value_twice_as_outputs(tmp_path: Path, exporter: str) -> None:
    inputs = {"x": {"shape": ["n", 2]}}
    run = convert(tmp_path, model="small.py:same", inputs=inputs, outputs=["a", "b", "c"], exporter=exporter)
    model = onnx.load(run.model)
    onnx.checker.check_model(model, full_check=True)
    assert shapes_of(model.graph.output) == {"a": ["n", 2], "b": ["n", 2], "c": ["n", 2]}
    assert run.value("max_abs_error") == 0


@pytest.mark.parametrize("exporter", mostly_slow(EXPORTERS, "torchscript"))
def test_inputs_that_nothing_reads_stay(tmp_path: Path, exporter: str) -> None:
    inputs = {name: {"shape": ["batch", size]} for size, name in enumerate(("first", "middle", "last"), 2)}
    run = convert(tmp_path, model="small.py:middle", inputs=inputs, outputs=["y"], exporter=exporter)
    graph = onnx.load(run.model).graph
    assert shapes_of(graph.input) == {"first": ["batch", 2], "middle": ["batch", 3], "last": ["batch", 4]}
    assert run.value("max_abs_error") == 0


@pytest.mark.parametrize("exporter", mostly_slow(EXPORTERS, "torchscript"))
@pytest.mark.parametrize("name", ["x", "image"])
def test_parameters_of_forward_with_defaults_are_no_inputs(tmp_path: Path, exporter: str, name: str) -> None:
    inputs = {name: {"shape": ["n", 2]}}
    run = convert(tmp_path, model="small.py:scaled", inputs=inputs, outputs=["y"], exporter=exporter)
    graph = onnx.load(run.model).graph
    assert shapes_of(graph.input) == {name: ["n", 2]}
    assert {"linear.weight", "linear.bias"} <= {tensor.name for tensor in graph.initializer}
    assert run.value("max_abs_error") < 1e-6


def test_external_data_beside_the_model(tmp_path: Path) -> None:
    run = convert(tmp_path, **TINY_BERT, external_data="always")
    assert sorted(path.name for path in run.output.iterdir()) == ["model.onnx", "model.onnx.data"]
    assert run.value("size") == sum(path.stat().st_size for path in run.output.iterdir())
    assert run.value("max_abs_error") < 1e-5


def test_the_seed_makes_the_weights(tmp_path: Path) -> None:
    def weights(seed: int) -> bytes:
        params = {**SCORER, "exporter": "torchscript"}
        return run_stage("convert/torch", tmp_path, params, root=MODULES, seed=seed).model.read_bytes()

    assert weights(1) == weights(1)
    assert weights(1) != weights(2)


def find_line(text: str) -> int:
    """Return the number of a line of `forward` in small.py."""
    return (MODULES / "small.py").read_text().splitlines().index(f"        {text}") + 1


def test_a_trace_of_one_size_is_caught_at_another(tmp_path: Path) -> None:
    inputs = {"x": {"shape": ["n", 2], "low": 1, "high": 1}}
    line = find_line("return x * float(len(x))")
    assert refusal(tmp_path, model="small.py:frozen", inputs=inputs, outputs=["y"], exporter="torchscript") == (
        "the exported model disagrees with the PyTorch model in output 'y'\n"
        "  2 of 2 values are further off than 0.0001 + 0.001 x |reference|; "
        "the worst is 2 instead of 1 at [0, 0]\n"
        "  for random values at n=1\n"
        f"  hint: a trace keeps sizes of its example, as a loop over an axis reads them (see small.py:{line}): compute "
        "with tensors, or declare the axis with its size in `shape`; or try `exporter: dynamo`, or another `opset`"
    )


@pytest.mark.slow
def test_a_loop_over_an_axis_is_named(tmp_path: Path) -> None:
    inputs = {"x": {"shape": ["batch", 2]}, "keys": {"shape": [3, 2]}, "values": {"shape": ["past", 2]}}
    params = {"model": "small.py:looping", "inputs": inputs, "outputs": ["y"]}
    assert refusal(tmp_path, **params) == (
        "PyTorch's dynamo exporter cannot export the model\n"
        "  forward fixes axis 0 of 'values' at its size in the example, 7, as a loop over it does\n"
        "  `inputs` declares that axis as dynamic: past\n"
        "  hint: compute with tensors, or declare the axis with its size, such as `values: {shape: [7, 2]}`; or try "
        "`exporter: torchscript`, or another `opset`"
    )
    assert refusal(tmp_path, **params, exporter="torchscript").splitlines()[-1] == (
        "  hint: a trace keeps sizes of its example, as a loop over an axis reads them: compute with tensors, or "
        "declare the axis with its size in `shape`; or try `exporter: dynamo`, or another `opset`"
    )


@pytest.mark.slow
def test_complex_numbers_as_two_parts(tmp_path: Path) -> None:
    inputs = {"x": {"shape": ["batch", 8]}}
    run = convert(tmp_path, model="small.py:split_spectrum", inputs=inputs, outputs=["y"])
    assert run.value("max_abs_error") < 1e-5


@pytest.mark.parametrize(
    ("model", "cases"),
    [
        ("optional_small", "  1 for random values at n=1, w=2\n  2 for random values at n=7, w=1"),
        ("optional_large", "  2 for random values at n=1, w=2\n  1 for w=64"),
    ],
)
def test_a_tensor_that_is_missing_at_some_sizes(tmp_path: Path, model: str, cases: str) -> None:
    inputs = {"x": {"shape": ["n", "w"]}}
    assert refusal(tmp_path, model=f"small.py:{model}", inputs=inputs, outputs=["y", "z"]) == (
        "the PyTorch model does not return the same number of tensors for all inputs, as a graph does\n"
        f"{cases}\n"
        "  hint: return a tensor always, such as an empty one in place of None; or leave that output out"
    )


@pytest.mark.parametrize(
    ("model", "exporter", "line"),
    [
        ("branch", "dynamo", "if x.sum() > 0:"),
        ("outlier", "torchscript", "if x.shape[0] > 100 or (torch.ones_like(x).all() and limits.max() > 1000):"),
    ],
)
def test_a_branch_on_values_is_named(tmp_path: Path, model: str, exporter: str, line: str) -> None:
    params = {"model": f"small.py:{model}", "inputs": {"x": {"shape": ["n", 2]}}, "outputs": ["y"]}
    assert refusal(tmp_path, **params, exporter=exporter) == (
        "the module's forward depends on the values of its inputs, which an exported graph cannot\n"
        f"  small.py:{find_line(line)}: {line}\n"
        "  hint: compute both results and choose by torch.where, or return a module without that branch; skip a mere "
        "check of the inputs by `if not torch.onnx.is_in_onnx_export()`"
    )


def test_checks_of_sizes_and_values_are_no_branches(tmp_path: Path) -> None:
    params = {"model": "small.py:checking", "inputs": {"x": {"shape": ["n", 2]}}, "outputs": ["y"]}
    run = convert(tmp_path, **params, exporter="torchscript")
    assert (run.value("max_abs_error"), run.notes) == (0, ())


def test_a_branch_on_values_in_a_package_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code is not the user's to change."""
    packages = tmp_path / ".venv" / "site-packages"
    packages.mkdir(parents=True)
    monkeypatch.syspath_prepend(packages)
    (packages / "outlying.py").write_text("""\
import torch

class Outlier(torch.nn.Module):
    def forward(self, x):
        if x.max().item() > 1000:
            return x
        return -x
""")
    (tmp_path / "m.py").write_text("from outlying import Outlier as load\n")
    params = {"model": "m.py:load", "inputs": {"x": {"shape": ["n", 2]}}, "outputs": ["y"], "exporter": "torchscript"}
    run = run_stage("convert/torch", tmp_path, params, root=tmp_path)
    assert run.notes == (
        (
            "the exported model has as a constant what forward reads from values of its inputs: "
            "outlying.py:5: if x.max().item() > 1000:"
        ),
    )


@pytest.mark.parametrize(
    ("model", "names", "outputs", "message"),
    [
        ("number", "x", ["y"], "small.py:number must return a torch.nn.Module\n  it returned a int"),
        (
            "MADE",
            "x",
            ["y"],
            "small.py:MADE is of type Sequential, not a function that returns one\n  hint: def load(): return MADE",
        ),
        (
            "NAMES",
            "x",
            ["y"],
            "small.py:NAMES is of type list, not a function\n  hint: def load(): return NAMES",
        ),
        (
            "scorer",
            ["ids"],
            ["a", "b"],
            (
                "the module does not take these `inputs`\n"
                "  ids: missing a required argument: 'mask'\n"
                "  its forward is (ids: 'torch.Tensor', mask: 'torch.Tensor') -> 'dict[str, torch.Tensor]'\n"
                "  hint: name what forward takes and has no default for"
            ),
        ),
        (
            "packed",
            "xy",
            ["y"],
            (
                "inputs and outputs need names that differ, and 'y' stands twice\n"
                "  inputs x, y; outputs y\n"
                "  hint: give the output another name in `outputs`"
            ),
        ),
        (
            "spectrum",
            "x",
            ["y"],
            (
                "the PyTorch model returns complex numbers in output 'y', which ONNX Runtime cannot\n"
                "  hint: return torch.view_as_real(y): the real and imaginary parts in a last axis of 2"
            ),
        ),
        (
            "same",
            "x",
            ["y"],
            (
                "the PyTorch model returns 3 tensors, and `outputs` names 1\n"
                "  of shapes [2], [2], [2]\n"
                "  hint: name each tensor that the model returns, in order"
            ),
        ),
        (
            "packed",
            "xy",
            ["z"],
            (
                "the module does not take these `inputs`\n"
                "  x, y: too many positional arguments\n"
                "  its forward is (batch: 'dict[str, torch.Tensor]') -> 'torch.Tensor'\n"
                "  hint: name the input that it takes; if it takes several in one, let the function of `model` return "
                "a module around it, whose forward has a parameter for each of `inputs`"
            ),
        ),
        (
            "packed",
            ["batch"],
            ["z"],
            (
                "the PyTorch model cannot run random values\n"
                "  new(): invalid data type 'str'\n"
                "  hint: name the input that it takes; if it takes several in one, let the function of `model` return "
                "a module around it, whose forward has a parameter for each of `inputs`"
            ),
        ),
        (
            "structured",
            "xy",
            ["z"],
            (
                "the module returned an object of type Answer, which is no tensor\n"
                "  it may return tensors, and lists, tuples and mappings of them\n"
                "  hint: let the function of `model` return a module around it, whose forward returns the tensors of "
                "that"
            ),
        ),
        (
            "remembering",
            "x",
            ["y"],
            (
                "the module returned an object of type DynamicCache, which is no tensor\n"
                "  it may return tensors, and lists, tuples and mappings of them\n"
                "  hint: turn the cache off in the function of `model`: module.config.use_cache = False"
            ),
        ),
        (
            "count",
            "x",
            ["y"],
            (
                "the module returned the number 7, which is no tensor\n"
                "  it may return tensors, and lists, tuples and mappings of them\n"
                "  hint: return torch.tensor(7), or leave it out"
            ),
        ),
        (
            "logarithm",
            "x",
            ["y"],
            (
                "the PyTorch model yields values that are not finite in output 'y'\n"
                "  for random values\n"
                "  hint: say in `inputs` which values the model takes: `low`, `high`, `fill`"
            ),
        ),
    ],
)
def test_a_model_that_does_not_go_with_its_inputs_and_outputs(
    tmp_path: Path, model: str, names: Iterable[str], outputs: list[str], message: str
) -> None:
    inputs = {name: {"shape": [2]} for name in names}
    assert refusal(tmp_path, model=f"small.py:{model}", inputs=inputs, outputs=outputs) == message


@pytest.mark.parametrize("function", ["noisy", "counter"])
def test_a_module_that_answers_differently_each_time(tmp_path: Path, function: str) -> None:
    params = {"model": f"small.py:{function}", "inputs": {"x": {"shape": ["n", 4]}}, "outputs": ["y"]}
    assert refusal(tmp_path, **params, exporter="torchscript") == (
        "the PyTorch model answers the same inputs differently each time\n"
        "  it draws random numbers, keeps state, or was saved in training mode\n"
        "  hint: F.dropout(x, p, training=self.training); no torch.randn in forward; .eval() before torch.export or "
        "torch.jit.trace"
    )


def test_outputs_that_have_the_key_of_another_tensor(tmp_path: Path) -> None:
    params: dict[str, Any] = {"model": "small.py:siamese", "inputs": {name: {"shape": ["n", 2]} for name in "xy"}}
    assert refusal(tmp_path, **params, outputs=["same", "distance", "left", "right"]) == (
        "`outputs` would give 'same' to what forward returns as 'distance'\n"
        "  tensors keep the order in which forward returns them: distance, same, left, right\n"
        "  hint: outputs: [distance, same, left, right]"
    )
    run = convert(tmp_path, **params, outputs=["gap", "same", "a", "b"], exporter="torchscript")
    assert run.value("max_abs_error") == 0


def test_inputs_of_another_type_or_layout_than_the_module_takes(tmp_path: Path) -> None:
    image = {"image": {"shape": [1, 3, 4, 4]}}
    text = refusal(tmp_path, model="small.py:half", inputs=image, outputs=["y"])
    assert text.splitlines()[0] == "the PyTorch model cannot run random values"
    assert text.splitlines()[-1] == (
        "  hint: the module's weights are float16, and its inputs are declared as float32: declare float16, or "
        "`return module.float()` in the function of `model`"
    )
    rows = {"image": {"shape": [1, 4, 4, 3]}}
    text = refusal(tmp_path, model="small.py:convolution", inputs=rows, outputs=["y"])
    assert text.splitlines()[-1] == (
        "  hint: declare the axes as forward takes them, with the 3 channels as a number: `[batch, 3, ...]`"
    )


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("source", ["small.py:middle", "traced.pt"])
def test_an_input_of_which_another_would_be_taken_for_it(tmp_path: Path, source: str) -> None:
    """With one name misspelt all go by position: what is `first` would silently be `middle`."""
    import torch

    from tests.stages.modules.small import middle

    modules = MODULES
    if source == "traced.pt":
        modules = tmp_path
        torch.jit.script(middle()).save(tmp_path / source)
    inputs = {name: {"shape": ["n", 2]} for name in ("midle", "first", "last")}
    params = {"model": source, "inputs": inputs, "outputs": ["y"], "exporter": "torchscript"}
    with pytest.raises(OrunError) as caught:
        run_stage("convert/torch", tmp_path, params, root=modules)
    assert str(caught.value) == (
        "`inputs` would give 'first' to 'middle' of the module's forward\n"
        "  it has no parameter midle, so that they go in the order given: midle, first, last\n"
        "  its forward is (first, middle, last)\n"
        "  hint: name its parameters in `inputs`; or give all in its order, under names of your own"
    )
    good = params | {"inputs": {name: {"shape": ["n", 2]} for name in ("one", "middle", "two")}}
    run = run_stage("convert/torch", tmp_path, good, root=modules)
    assert run.value("max_abs_error") == 0
    assert run.notes == (
        "`inputs` went to the module's forward in the order given, not by name: first = one, last = two",
    )


def test_an_export_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(StageFailed) as caught:
        convert(tmp_path, **SCORER | {"exporter": "torchscript", "opset": 25})
    assert caught.value.problem == "PyTorch's torchscript exporter cannot export the model"
    assert caught.value.hint == "try `exporter: dynamo`, or another `opset`; the log has the whole message"
    assert "25" in caught.value.why


def test_an_operator_set_that_the_exporter_cannot_reach_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, **SCORER, opset=13) == (
        "PyTorch's dynamo exporter made a model of operator set 18, not 13\n"
        "  it cannot convert this model to 13; the log has its whole message\n"
        "  hint: `exporter: torchscript`, or `opset: 18`"
    )
    traced = convert(tmp_path, **SCORER, opset=13, exporter="torchscript")
    assert [(item.domain, item.version) for item in onnx.load(traced.model).opset_import] == [("", 13)]


def test_sizes_of_an_axis_that_is_not_there(tmp_path: Path) -> None:
    assert refusal(tmp_path, **SCORER, dims={"width": [3]}) == (
        "the model has no dynamic axis 'width'\n  its dynamic axes are batch, length"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape": ["batch", -1]}, "input 'x' has an axis of size -1"),
        ({"shape": ["batch", ""]}, "input 'x' has an axis without a name"),
        ({"shape": [4], "low": 2.0, "high": 1.0}, "input 'x' takes values from 2 to 1, which is an empty range"),
    ],
)
def test_inputs_that_nothing_fits(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    assert refusal(tmp_path, model="small.py:logarithm", inputs={"x": change}, outputs=["y"]).startswith(message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outputs": ["embedding", ""]}, "inputs and outputs need names\n  one is empty"),
        (
            {"transformers": {"model_class": "AutoModel", "attention": "eager"}},
            "`transformers` is of no use, as small.py:scorer makes the model itself\n  hint: leave it out, and choose ",
        ),
        (
            {"model": "small.py", "weights": "small.py"},
            "`weights` is of no use, as small.py brings its own\n  hint: leave it out, or a pickled module",
        ),
    ],
)
def test_what_would_be_ignored(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    assert refusal(tmp_path, **{**SCORER, **change}).startswith(message)


FRAMES: dict[str, Any] = {
    "model": "small.py:frames", "inputs": {"sound": {"shape": ["batch", 1, "samples"]}}, "outputs": ["frames"],
}  # fmt: skip


def test_sizes_at_which_an_axis_is_always_1(tmp_path: Path) -> None:
    """The exporter would make a constant of it."""
    assert refusal(tmp_path, **FRAMES, dims={"samples": [10, 17]}) == (
        "axis 2 of output 'frames' is 1 at every size tried, and 7 at samples=64\n"
        "  an exporter takes an axis of 1 for a constant: the exported model would fail at larger sizes\n"
        "  hint: dims: {samples: [64, 96]}"
    )


@pytest.mark.parametrize("exporter", mostly_slow(EXPORTERS, "torchscript"))
def test_the_example_of_the_export_has_no_axis_of_1(tmp_path: Path, exporter: str) -> None:
    run = convert(tmp_path, **FRAMES, dims={"samples": [18, 10]}, exporter=exporter)
    assert run.value("max_abs_error") < 1e-6


@pytest.mark.slow
def test_a_decoder_that_is_padded_behind_alone(tmp_path: Path) -> None:
    """The new exporter gives tokens that see nothing, as before a text that is padded in front, another mean."""
    axes = ["batch", "sequence"]
    inputs: dict[str, Any] = {
        "input_ids": {"shape": axes, "dtype": "int64", "high": 49},
        "attention_mask": {"shape": axes, "dtype": "int64", "fill": "right-padded"},
    }
    params = {"model": "small.py:decoder", "outputs": ["hidden"], "dims": {"sequence": [2, 5]}}
    padded = convert(tmp_path, inputs=inputs, **params)
    assert padded.value("max_abs_error") < 1e-5
    assert padded.notes == ()
    inputs["attention_mask"]["fill"] = "mask"
    run = convert(tmp_path, inputs=inputs, **params)
    assert run.value("max_abs_error") < 1e-5
    (note,) = run.notes
    assert note.endswith("values of output 'hidden' were not compared: they depend on attention rows that see nothing")


@pytest.mark.parametrize("exporter", mostly_slow(EXPORTERS, "torchscript"))
def test_a_decoder_that_is_given_its_past(tmp_path: Path, exporter: str) -> None:
    """The mask is as long as both together, of which either is dynamic, and the past may be none."""
    inputs: dict[str, dict[str, Any]] = {
        "ids": {"shape": ["batch", "length"], "dtype": "int64", "high": 10},
        "mask": {"shape": ["batch", "past + length"], "dtype": "int64", "fill": "mask"},
        **{f"past.{part}": {"shape": ["batch", "past", 8]} for part in ("key", "value")},
    }
    outputs = ["seen", "present.key", "present.value"]
    run = convert(
        tmp_path, model="small.py:cached", inputs=inputs, outputs=outputs, exporter=exporter, dims={"past": [3, 0, 5]}
    )
    graph = onnx.load(run.model).graph
    assert shapes_of(graph.input) == {name: declared["shape"] for name, declared in inputs.items()}
    present = ["batch", "past + length", 8]
    assert shapes_of(graph.output) == {"seen": ["batch", "length", 8], "present.key": present, "present.value": present}
    assert run.value("max_abs_error") < 1e-5
