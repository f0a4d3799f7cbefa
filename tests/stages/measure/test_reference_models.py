"""References of other frameworks: the models that convert stages take, run by PyTorch, TensorFlow and scikit-learn."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
import torch

from orun.core import serialization
from orun.core.source_model import SourceModel
from orun.core.targets import Target
from orun.errors import OrunError
from orun.measure.framework_model import FrameworkSession
from orun.measure.session import open_session
from orun.pipeline.fragments import to_plain_default
from orun.stages.contract import MODEL, to_module_name
from orun.stages.measure.latency import Params, build_benchmark_cases
from orun.stages.params import list_params
from orun.stages.reference_models import open_source
from orun.stages.registry import import_kind
from tests.measure.support import ONE_THREAD
from tests.stages.conftest import MODULES, SCORER
from tests.stages.modules import estimators
from tests.stages.support import StageRun, make_context, run_stage
from tests.thin import mostly_slow

QUICK = {"time": 0.0, "warmup": 0.0, "samples": 6, "max_launches": 3}
PYTORCH, SKLEARN = f"PyTorch {torch.__version__}", f"scikit-learn {sklearn.__version__}"
LINE = """
import numpy as np
import orun
from sklearn.linear_model import LinearRegression

def fitted():
    return LinearRegression().fit([[0], [1]], [1, 3])

def rows():
    return orun.Dataset({"x": np.arange(6, dtype=np.float32)[:, None]})
"""
MODULE = """
from pathlib import Path
import torch

class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.drawn = torch.nn.Linear(2, 3)

    def forward(self, x):
        Path(__file__).with_name("threads").write_text(str(torch.get_num_threads()))
        return self.drawn(x), 0 * x + 1

def make():
    return Module()
"""


@dataclass(frozen=True)
class Converted:
    """A converted model, its source model, and the folder that paths of that are relative to."""

    output: Path
    source: SourceModel
    root: Path


def convert(folder: Path, kind: str, runtime: str, params: Mapping[str, Any], root: Path = MODULES) -> Converted:
    output = run_stage(kind, folder, params, root=root).output
    defaults = {item.name: to_plain_default(item.default) for item in list_params(import_kind(kind).Params)}
    return Converted(output, SourceModel("export", to_module_name(kind), runtime, defaults | dict(params)), root)


def measure(
    kind: str, folder: Path, model: Converted, params: Mapping[str, Any], target: Target = ONE_THREAD
) -> StageRun:
    return run_stage(
        kind,
        folder,
        params,
        inputs={"model": model.output, "reference": model.output},
        sources={"reference": model.source},
        root=model.root,
        target=target,
    )


@pytest.fixture(scope="module")
def scorer(tmp_path_factory: pytest.TempPathFactory) -> Converted:
    return convert(tmp_path_factory.mktemp("torch"), "convert/torch", "torch", SCORER)


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Converted:
    """A fitted line, from a file that imports little."""
    folder = tmp_path_factory.mktemp("sklearn")
    (folder / "line.py").write_text(LINE)
    return convert(folder, "convert/sklearn", "sklearn", {"model": "line.py:fitted", "data": "line.py:rows"}, folder)


def require_compared(run: StageRun, framework: str) -> None:
    """It was timed like any reference, in three launches, and the note says what ran."""
    speedup = run.metrics["speedup"]
    assert speedup.interval is not None
    assert speedup.interval.low <= speedup.value <= speedup.interval.high
    comparison = run.metrics["cpu"].reference
    assert comparison is not None
    assert comparison.count == 3
    assert run.notes == (f"the reference is the model that export converts, in {framework}",)
    launches = json.loads((run.output / "latency.json").read_text())["launches"]
    assert [item["sessions"]["reference"]["framework"] for item in launches] == [framework] * 3
    assert all("framework" not in item["sessions"]["model"] for item in launches)


@pytest.mark.slow  # what is launched is told below
def test_an_estimator_is_timed(line: Converted, tmp_path: Path) -> None:
    require_compared(measure("measure/latency", tmp_path, line, QUICK), SKLEARN)


def test_each_launch_opens_the_source_model_in_place_of_the_reference(line: Converted, tmp_path: Path) -> None:
    """In the process that times it; the model itself runs in ONNX Runtime."""
    inputs = {"model": line.output, "reference": line.output}
    context = make_context(
        tmp_path, inputs=inputs, sources={"reference": line.source}, root=line.root, target=ONE_THREAD
    )
    cases = build_benchmark_cases(context, Params())
    assert cases["model"].source is None
    assert cases["reference"].source is not None
    source = FrameworkSession(line.output / MODEL, cases["reference"].source())
    assert source.title == SKLEARN


@pytest.mark.slow  # it imports PyTorch for each launch
def test_a_module_is_timed_eagerly(scorer: Converted, tmp_path: Path) -> None:
    require_compared(measure("measure/latency", tmp_path, scorer, QUICK), f"{PYTORCH}, eager")


@pytest.mark.table  # it compiles C++; a module as it is, above, is slow
def test_a_module_is_timed_as_torch_compiles_it(scorer: Converted, tmp_path: Path) -> None:
    compiled = replace(scorer, source=serialization.replace(scorer.source, runtime="torch.compile"))
    require_compared(measure("measure/latency", tmp_path, compiled, QUICK), f"{PYTORCH}, torch.compile")
    run = measure("measure/accuracy", tmp_path, compiled, {"metrics": ["max_abs"], "samples": 4})
    assert run.value("max_abs") < 1e-5


FILES = {"model.keras": "TensorFlow {}, traced by tf.function", "model.tflite": "TensorFlow Lite of TensorFlow {}"}


@pytest.mark.parametrize(
    "file", [pytest.param("model.keras", marks=pytest.mark.slow), pytest.param("model.tflite", marks=pytest.mark.table)]
)
def test_models_of_tensorflow_are_timed(network_files: Path, tmp_path: Path, file: str) -> None:
    import tensorflow as tf

    model = convert(tmp_path, "convert/tensorflow", "tensorflow", {"model": file}, network_files)
    require_compared(measure("measure/latency", tmp_path, model, QUICK), FILES[file].format(tf.__version__))


def require_equal_answers(model: Converted, values: Any, framework: str, atol: float) -> None:
    """The source model, opened as in the process that runs it, answers as the ONNX model does, in its form."""
    source = FrameworkSession(model.output / MODEL, open_source(model.source, model.root, 0, None))
    assert source.title == framework
    session = open_session(model.output / MODEL, ONE_THREAD)
    feed = {item.name: values for item in session.get_inputs()}
    answers, expected = source.run(None, feed), session.run(None, feed)
    assert len(answers) == len(expected) == len(source.get_outputs())
    for ours, theirs in zip(answers, expected, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        if ours.dtype.kind == "f":
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=atol)
        else:
            assert ours.tolist() == theirs.tolist()


@pytest.mark.slow  # that of a file of Keras is quick, in convert/test_tensorflow.py
@pytest.mark.parametrize("file", FILES)
def test_answers_of_tensorflow(network_files: Path, tmp_path: Path, file: str) -> None:
    import tensorflow as tf

    model = convert(tmp_path, "convert/tensorflow", "tensorflow", {"model": file}, network_files)
    images = np.random.default_rng(0).random((8, 8, 8, 1), np.float32)
    require_equal_answers(model, images, FILES[file].format(tf.__version__), 1e-5)


@pytest.mark.parametrize(
    ("estimator", "data"),
    [("forest", "digits"), ("tree_of_names", "digits"), ("margins", "digits"), ("ridge", "bodies")],
)
def test_answers_of_scikit_learn(tmp_path: Path, estimator: str, data: str) -> None:
    """Labels and scores come in the form that the ONNX model gives them."""
    params = {"model": f"estimators.py:{estimator}", "data": f"estimators.py:{data}"}
    model = convert(tmp_path, "convert/sklearn", "sklearn", params)
    (values,) = getattr(estimators, data)().inputs.values()
    require_equal_answers(model, np.asarray(values, np.float32), SKLEARN, 1e-3)


@pytest.mark.slow
def test_outputs_are_compared_with_those_that_pytorch_computes(tmp_path: Path) -> None:
    """On the threads of the target; without one, on one thread here, as `OMP_NUM_THREADS` says."""
    (tmp_path / "module.py").write_text(MODULE)
    outputs = ["drawn", "constant"]  # by weights that follow the seed of the stage; in the file
    params = {"model": "module.py:make", "inputs": {"x": {"shape": ["batch", 2]}}, "outputs": outputs}
    model = convert(tmp_path, "convert/torch", "torch", {**params, "exporter": "torchscript"}, tmp_path)
    (tmp_path / "module.py").write_text(MODULE.replace("0 * x + 1", "0 * x + 3"))
    two = Target("two", session={"intra_op_num_threads": 2})
    run = measure("measure/accuracy", tmp_path, model, {"metrics": ["max_abs"], "outputs": outputs, "samples": 4}, two)
    assert 0 <= run.value("max_abs[drawn]") < 1e-6
    assert run.value("max_abs[constant]") == 2
    assert (tmp_path / "threads").read_text() == "2"
    assert run.notes == (f"the reference is the model that export converts, in {PYTORCH}, eager",)


@pytest.mark.parametrize(
    ("kind", "params"),
    mostly_slow(
        [("measure/latency", QUICK), ("measure/accuracy", {"metrics": ["cosine"]})],
        ("measure/accuracy", {"metrics": ["cosine"]}),
    ),
)
def test_a_source_that_cannot_be_opened_is_an_error(
    line: Converted, tmp_path: Path, kind: str, params: Mapping[str, Any]
) -> None:
    changed = {**line.source.params, "model": "line.py:nowhere"}
    model = replace(line, source=serialization.replace(line.source, params=changed))
    with pytest.raises(OrunError) as caught:
        measure(kind, tmp_path, model, params)
    assert str(caught.value) == "no function 'nowhere' in line.py\n  it defines: LinearRegression, fitted, rows"
