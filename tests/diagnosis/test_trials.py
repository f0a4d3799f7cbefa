"""Segments restored one at a time by switches: the same figures as with a model for each segment."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper, parser

from orun.core.targets import Target
from orun.diagnosis import trials
from orun.diagnosis.alignment import find_constants
from orun.diagnosis.comparing import Comparison
from orun.diagnosis.findings import Effort, analyse
from orun.diagnosis.patching import restore
from orun.diagnosis.segments import Segment, find_differing, find_segments
from orun.diagnosis.trials import Trials, count_bytes
from orun.diagnosis.values import Pair, Probe, Tally
from orun.errors import UsageError
from orun.stages._graph.disk_weights import load_on_disk
from tests.diagnosis.planted import layers
from tests.stages.support import artifact, run_stage

RANDOM = np.random.default_rng(1)
FEEDS = [{"x": RANDOM.standard_normal((size, 16)).astype(np.float32)} for size in (1, 3, 2)]
CPU = Target("cpu")


def silent(done: int, count: int, text: str) -> None:
    del done, count, text


def pair_of(kind: str, folder: Path) -> Pair:
    """Return the planted layers, and the result of a kind on them."""
    before = artifact(folder, layers(outlier=3.0))
    return Pair(onnx.load(run_stage(kind, folder, inputs={"model": before}).model), layers(3.0), FEEDS, CPU)


def compared(pair: Pair) -> tuple[Comparison, list[Segment]]:
    shared = find_segments(pair.model, pair.reference)
    changed = find_differing(shared, pair.model, pair.reference)
    comparison = Comparison(pair, shared, {segment.theirs.tensor: segment for segment in changed})
    comparison.run(silent)
    return comparison, list(changed)


def alone(pair: Pair, comparison: Comparison, segment: Segment) -> float:
    """Return the remaining error of a model in which this segment is restored."""
    probe, tally = Probe(restore(pair.model, pair.reference, [segment], comparison.elements), (), CPU), Tally()
    for feed, answer in zip(pair.feeds, comparison.answers, strict=True):
        tally.add("y", probe.run(feed)["y"], answer["y"])
    return tally.compute_error()


@pytest.mark.parametrize("kind", ["quantize/dynamic", "quantize/weights"])
def test_each_switch_is_worth_a_model_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    pair = pair_of(kind, tmp_path)
    comparison, changed = compared(pair)
    total = comparison.outputs.compute_error()
    right = {segment.theirs.tensor: 1 - alone(pair, comparison, segment) / total for segment in changed}
    assert len(right) >= 3
    for held in (trials.HELD, 1):  # all in one session, and one in each
        monkeypatch.setattr(trials, "HELD", held)
        assert Trials(pair, comparison, math.inf, silent).run(changed) == right


def test_weights_count_wherever_they_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = layers()
    onnx.save(model, "model.onnx")
    sizes = {tensor.name: numpy_helper.to_array(tensor).nbytes for tensor in model.graph.initializer}
    loaded = load_on_disk(tmp_path / "model.onnx", "weights")
    weights = {tensor.name: count_bytes(tensor) for tensor in loaded.graph.initializer}
    assert all(sizes[name] <= weights[name] <= sizes[name] + 50 for name in sizes)


def test_places_are_put_together_up_to_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = pair_of("optimize/float16", tmp_path)
    places = compared(pair)[1]
    stored = find_constants(pair.reference)
    first, second, third = (sum(count_bytes(stored[name]) for name in segment.theirs.constants) for segment in places)
    assert min(first, second, third) > 0
    for held, sizes in (
        (first + second + third, [3]),
        (first + second + third - 1, [2, 1]),
        (first + second, [2, 1]),
        (max(first, second, third), [1, 1, 1]),
    ):
        monkeypatch.setattr(trials, "HELD", held)
        assert [len(group) for group in trials.split_by_size(places, pair.reference)] == sizes


def test_values_are_converted_where_the_models_compute_in_other_types(tmp_path: Path) -> None:
    pair = pair_of("optimize/float16", tmp_path)
    weight = next(tensor for tensor in pair.model.graph.initializer if tensor.name.startswith("w2"))
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * np.float16(1.5), weight.name))
    comparison, changed = compared(pair)
    shares = Trials(pair, comparison, math.inf, silent).run(changed)
    types = comparison.elements.ours["c"], comparison.elements.theirs["c"]
    assert types == (TensorProto.FLOAT16, TensorProto.FLOAT)
    assert shares.keys() == {"a", "c", "y"}
    assert shares["c"] == pytest.approx(1, abs=1e-5)


def test_places_that_do_not_go_together_are_left_out() -> None:
    """Each model computes one of `a` and `b` from the other, in opposite order: only one can be restored."""
    header = '<ir_version: 9, opset_import: ["" : 20]> g (float[n] x) => (float[n] y)'
    model = parser.parse_model(header + "{ [one] a = Relu (x) [two] b = Tanh (a) [sum] y = Add (a, b) }")
    other = parser.parse_model(header + "{ [two] b = Sin (x) [one] a = Cos (b) [sum] y = Add (a, b) }")
    feeds = [{"x": np.array([-1, 0.5, 2], np.float32)}]
    analysis = analyse(Pair(model, other, feeds, CPU), Effort(8, 1e6), silent)
    shares = {segment.node: segment.share for segment in analysis.findings}
    assert shares["one"] is None
    assert shares["two"] is not None
    assert (analysis.tried, analysis.left) == (1, 1)


def test_a_node_is_restored_once_for_each_of_its_outputs() -> None:
    """As the classifiers of scikit-learn have them: a label and probabilities."""
    header = '<ir_version: 9, opset_import: ["" : 20]> g (float[n] x) => (float[n] y, int64[n] z)'
    text = header + "{{ [scale] a = Mul ({}, x) [top] y, z = TopK <largest = {}> (a, k) }}"
    model, reference = (parser.parse_model(text.format("x", largest)) for largest in (0, 1))
    for each in (model, reference):
        each.graph.initializer.append(numpy_helper.from_array(np.array([2], np.int64), "k"))
    pair = Pair(model, reference, [{"x": np.array([3, 1, 2], np.float32)}], CPU)
    comparison, changed = compared(pair)
    restored = restore(model, reference, changed, comparison.elements)
    assert [node.name for node in restored.graph.node] == ["scale", "restored::y::top", "restored::z::top"]
    answers = Probe(restored, (), CPU).run(pair.feeds[0])
    assert {name: answers[name].tolist() for name in ("y", "z")} == {"y": [9, 4], "z": [0, 2]}


def test_no_place_that_could_be_tried() -> None:
    header = '<ir_version: 9, opset_import: ["" : {}]> g (float[n] x) => (float[n] y) {{ [one] y = {} (x) }}'
    pair = Pair(
        parser.parse_model(header.format(20, "Sin")),
        parser.parse_model(header.format(19, "Cos")),
        [{"x": np.ones(3, np.float32)}],
        CPU,
    )
    with pytest.raises(UsageError, match="nodes of one model cannot be put into the other") as refused:
        analyse(pair, Effort(8, 1e6), silent)
    assert refused.value.why == "one is of operator set 20, the other of 19"


def test_as_many_examples_as_time_allows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = pair_of("quantize/dynamic", tmp_path)
    comparison, changed = compared(pair)
    monkeypatch.setattr(trials, "monotonic", lambda: 0.0)
    for seconds, examples in ((0.0, 3), (45.0, 2), (1e6, 1)):
        comparison.seconds = seconds / len(changed)
        tried = Trials(pair, comparison, 50.0, silent)
        assert tried.run(changed).keys() == {segment.theirs.tensor for segment in changed}
        assert tried.examples == examples
    late = Trials(pair, comparison, -1.0, silent)
    assert (late.run(changed), late.examples) == ({}, 1)
