"""Estimators of scikit-learn, converted and compared with what scikit-learn itself answers."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnxruntime import InferenceSession
from skl2onnx import update_registered_converter
from skl2onnx.operator_converters.quadratic_discriminant_analysis import (
    convert_quadratic_discriminant_analysis_classifier,
)
from skl2onnx.shape_calculators.quadratic_discriminant_analysis import calculate_quadratic_discriminant_analysis_shapes
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.linear_model import Ridge

from orun.errors import MissingPackages, OrunError, StageFailed
from orun.stages import memory_headroom
from orun.stages._graph import sessions
from orun.stages._sklearn import check, converters
from orun.stages._sklearn.export import count_weight_bytes
from orun.stages._sklearn.plain import find_column, remove_wrappers
from tests.stages.conftest import MODULES
from tests.stages.models import shapes_of
from tests.stages.modules import estimators
from tests.stages.support import StageRun, run_stage


def convert(folder: Path, model: str, data: str, **params: Any) -> StageRun:
    stage_params = {"model": f"estimators.py:{model}", "data": f"estimators.py:{data}", **params}
    return run_stage("convert/sklearn", folder, stage_params, root=MODULES)


def refusal(folder: Path, model: str, data: str, **params: Any) -> str:
    with pytest.raises(OrunError) as caught:
        convert(folder, model, data, **params)
    return str(caught.value)


def change_answers(patch: pytest.MonkeyPatch, change: Callable[[Any, list[Any]], list[Any]]) -> None:
    """Change the answers of the converted model before they are compared: `change` takes its inputs and answers."""
    open_session = sessions.open_model

    def changed(*arguments: Any) -> Any:
        model = open_session(*arguments)
        return lambda feed: change(feed, list(model(feed)))

    patch.setattr(check, "open_model", changed)


def answer(run: StageRun, feed: Mapping[str, Any], *outputs: str) -> list[Any]:
    """What the converted model answers; all outputs when none is named."""
    session = InferenceSession(run.model, providers=["CPUExecutionProvider"])
    return list(session.run(outputs or None, feed))


@pytest.mark.parametrize(
    "model", ["tree_of_measures", "line_of_measures", "clusters_of_measures", "machine_of_measures"]
)
def test_an_estimator_of_one_matrix_takes_the_columns_of_a_table(tmp_path: Path, model: str) -> None:
    """As one that was fitted on a data frame: skl2onnx takes these for several inputs."""
    run = convert(tmp_path, model, "measures")
    assert run.value("agreement") == 1
    graph = onnx.load(run.model).graph
    types = {value.name: value.type.tensor_type.elem_type for value in graph.input}
    assert types == {"age": TensorProto.INT64, "weight": TensorProto.FLOAT, "woman": TensorProto.BOOL}
    assert [node.op_type for node in graph.node][:4] == ["Cast", "Cast", "Cast", "Concat"]


@pytest.mark.parametrize(
    ("model", "data"),
    [("scaled_forest", "grades"), ("forest_of_products", "grades_with_gaps"), ("tree_of_gaps", "grades_with_gaps")],
)
def test_steps_before_trees_compute_in_float64(tmp_path: Path, model: str, data: str) -> None:
    """As in scikit-learn: values of a scale lie on thresholds, and float32 put one in ten on their other side."""
    run = convert(tmp_path, model, data)
    assert run.value("agreement") == 1
    graph = onnx.load(run.model).graph
    assert graph.input[0].type.tensor_type.elem_type == TensorProto.FLOAT
    casts = [node.attribute[0].i for node in graph.node if node.op_type == "Cast"]
    assert (casts[0], TensorProto.FLOAT in casts[1:]) == (TensorProto.DOUBLE, True)


@pytest.mark.parametrize(
    "model",
    [
        "gaps_in_forest",
        "gaps_in_tree_of_names",
        "gaps_in_regression",
        "gaps_in_outliers",
        "gaps_at_prediction_alone",
    ],
)
def test_trees_send_missing_values_to_the_side_of_scikit_learn(tmp_path: Path, model: str) -> None:
    assert convert(tmp_path, model, "grades_with_gaps").value("agreement") == 1


@pytest.mark.parametrize("model", ["imputed_line_of_measures", "turned_line_of_measures"])
def test_columns_of_several_types_go_into_one_step(tmp_path: Path, model: str) -> None:
    assert convert(tmp_path, model, "measures").value("agreement") == 1


def test_labels_of_equal_scores_count_as_equal(tmp_path: Path) -> None:
    run = convert(tmp_path, "even_votes", "grades")
    assert run.value("agreement") == 1
    (note,) = run.notes
    assert re.fullmatch(
        r"\d+ of 442 examples have another label than in scikit-learn, and count as equal: scikit-learn's own scores "
        "of both labels are equal there, within the tolerance",
        note,
    )


@pytest.mark.parametrize("model", ["tree_of_measures", "scaled_line_of_measures"])
def test_columns_keep_their_names(tmp_path: Path, model: str) -> None:
    """skl2onnx makes identifiers of the names of several inputs, which nobody could feed then."""
    run = convert(tmp_path, model, "measures_with_units")
    assert run.value("agreement") == 1
    names = [value.name for value in onnx.load(run.model).graph.input]
    assert names == ["age (years)", "age_(years)", "2 / woman"]


@pytest.mark.skipif(find_spec("pandas") is None, reason="pandas is not installed")
def test_columns_that_a_data_frame_did_not_have_are_left_out(tmp_path: Path) -> None:
    run = convert(tmp_path, "tree_of_names_in_a_frame", "measures")
    assert run.value("agreement") == 1
    assert [value.name for value in onnx.load(run.model).graph.input] == ["weight", "age"]


def test_an_estimator_of_a_data_frame_needs_pandas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingPackages) as caught:
        convert(tmp_path, "tree_of_names_in_a_frame", "measures")
    assert str(caught.value) == (
        "the DecisionTreeClassifier, which was fitted on a data frame, needs pandas, which is not installed\n"
        "  hint: install pandas"
    )


def test_an_estimator_that_yields_data_frames_needs_pandas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log alone told of an ImportError."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingPackages) as caught:
        convert(tmp_path, "scaler_of_frames", "bodies")
    assert str(caught.value) == (
        "the StandardScaler, which has set_output(transform='pandas'), needs pandas, which is not installed\n"
        "  hint: install pandas"
    )


@pytest.mark.parametrize(
    ("model", "right"),
    [
        pytest.param(
            "tree_of_names_in_a_frame",
            42,
            marks=pytest.mark.skipif(find_spec("pandas") is None, reason="pandas is not installed"),
        ),
        ("tree_of_measures", 43),
    ],
)
def test_a_column_to_slice_by_is_an_input_of_the_model_that_takes_it(tmp_path: Path, model: str, right: int) -> None:
    columns = estimators.measures().inputs
    rows = zip(*columns.values(), estimators.SUGAR[:60] > 150, strict=True)
    lines = ["age,weight,woman,ill", *(f"{age},{weight},{bool(woman)},{int(ill)}" for age, weight, woman, ill in rows)]
    (tmp_path / "people.csv").write_text("\n".join(lines))
    data: dict[str, Any] = {"path": str(tmp_path / "people.csv"), "labels": "ill"}
    sliced = {**data, "fields": ["age"]}
    fitted = sliced if model == "tree_of_names_in_a_frame" else data  # which a matrix takes as they are
    run = run_stage("convert/sklearn", tmp_path, {"model": f"estimators.py:{model}", "data": fitted}, root=MODULES)
    settings = {"dataset": sliced, "metrics": ["accuracy"], "outputs": ["label"], "slices": ["age"]}
    judged = run_stage("measure/accuracy", tmp_path, settings, inputs={"model": run.output}, root=MODULES)
    assert judged.value("accuracy") == right / 60
    assert judged.value("accuracy[age=21]") == 1


def test_columns_with_spaces_where_lightgbm_has_underscores() -> None:
    columns = ("petal width", "petal_length")
    assert [find_column(name, columns) for name in ("petal_width", "petal_length", "petal length")] == [*columns, None]


def test_a_column_of_labels_is_no_input(tmp_path: Path) -> None:
    (tmp_path / "test.csv").write_text("weight,age,churn\n1.5,20,1\n2.5,30,0\n")
    data = {"path": str(tmp_path / "test.csv"), "labels": "churn"}
    with pytest.raises(OrunError) as caught:
        run_stage("convert/sklearn", tmp_path, {"model": "estimators.py:tree_of_labels", "data": data}, root=MODULES)
    assert str(caught.value) == (
        "the DecisionTreeClassifier was fitted with the column 'churn', which `labels` takes\n"
        "  the label is no input of a model\n"
        "  hint: fit it without the label: df.drop(columns='churn')"
    )


def test_of_several_columns_the_inputs_are_to_be_named(tmp_path: Path) -> None:
    assert refusal(tmp_path, "opinions", "labelled_texts").endswith(
        "  hint: if not all of text, label are its inputs: `inputs: [NAME]` beside the path of the data; "
        "skl2onnx.supported_converters() lists what can be converted; the log has the whole message"
    )


def test_a_single_column_of_numbers_is_a_matrix(tmp_path: Path) -> None:
    run = convert(tmp_path, "line_of_years", "years")
    (answers,) = answer(run, {"age": estimators.YEARS[:, None]})
    np.testing.assert_allclose(answers[:, 0], estimators.line_of_years().predict(estimators.YEARS[:, None]), rtol=1e-5)


@pytest.mark.parametrize(
    ("model", "data", "outputs"),
    [
        ("pipeline", "digits", {"label": ["batch"], "probabilities": ["batch", 10]}),
        ("forest", "digits", {"label": ["batch"], "probabilities": ["batch", 10]}),
        ("boosted", "digits", {"label": ["batch"], "probabilities": ["batch", 10]}),
        ("tree_of_names", "digits", {"label": ["batch"], "probabilities": ["batch", 2]}),
        ("margins", "digits", {"label": ["batch"], "probabilities": ["batch", 1]}),
        ("scaled_margins", "digits", {"label": ["batch"], "probabilities": ["batch", 1]}),
        ("machine", "digits", {"label": ["batch"], "probabilities": ["batch", 2]}),
        ("machine_of_names", "digits", {"label": ["batch"], "probabilities": ["batch", 2]}),
        ("quadratic", "bodies", {"label": ["batch"], "probabilities": ["batch", 2]}),
        ("vote", "digits", {"label": ["batch"], "probabilities": ["batch", 10]}),
        ("ridge", "bodies", {"variable": ["batch", 1]}),
        ("regression_tree", "bodies", {"variable": ["batch", 1]}),
        ("forest_of_forecasts", "bodies", {"variable": ["batch", 3]}),
        ("network_of_forecasts", "bodies", {"variable": ["batch", 3]}),
        ("neighbours", "bodies", {"variable": ["batch", 1]}),
        ("weighed_neighbours", "bodies", {"variable": ["batch", 1]}),
        ("weighed_neighbours_of_names", "bodies", {"label": ["batch"], "probabilities": ["batch", 2]}),
        ("components", "digits", {"variable": ["batch", 3]}),
        ("clusters", "digits", {"label": ["batch"], "scores": ["batch", 4]}),
        ("narrow_clusters", "digits", {"label": ["batch"], "scores": ["batch", 4]}),
        ("outliers", "bodies", {"label": ["batch", 1], "scores": ["batch", 1]}),
        ("opinions", "texts", {"label": ["batch"], "probabilities": ["batch", 2]}),
        ("columns", "people", {"label": ["batch"], "probabilities": ["batch", 2]}),
        ("imputed", "people", {"label": ["batch"], "probabilities": ["batch", 2]}),
    ],
)
def test_it_answers_what_scikit_learn_answers(
    tmp_path: Path, model: str, data: str, outputs: dict[str, list[int | str]]
) -> None:
    run = convert(tmp_path, model, data)
    graph = onnx.load(run.model)
    assert shapes_of(graph.graph.output) == outputs
    domains = [item.domain for item in graph.opset_import]
    assert len(domains) == len(set(domains))
    assert run.value("agreement") == 1.0
    assert run.value("max_abs_error") < 1e-3


@pytest.mark.parametrize(
    ("model", "data", "message"),
    [
        (
            "imputed_line_of_measures",
            "separated",
            (
                "column 'weight' holds texts ('1,234.5' in row 2); the SimpleImputer was fitted on numbers\n"
                "  hint: write 1234.5: a number has no separators of thousands"
            ),
        ),
        (
            "columns",
            "people_in_texts",
            (
                "column 'age' holds texts ('old' in row 3); the StandardScaler was fitted on numbers\n"
                "  hint: write numbers there, or leave a cell empty: `missing: nan`"
            ),
        ),
        (
            "imputed",
            "people_in_numbers",
            (
                "column 'town' holds numbers (7 in row 1); the SimpleImputer was fitted on texts\n"
                "  hint: `types: {town: text}` beside the path of the data, if its numbers name classes"
            ),
        ),
        (
            "columns",
            "people_in_numbers",
            (
                "column 'town' holds numbers (7 in row 1); the OneHotEncoder was fitted on texts\n"
                "  hint: `types: {town: text}` beside the path of the data, if its numbers name classes"
            ),
        ),
    ],
)
def test_columns_of_another_type_than_fitted(tmp_path: Path, model: str, data: str, message: str) -> None:
    assert refusal(tmp_path, model, data) == message


OTHER_TOWNS = "column 'town' holds categories that the OneHotEncoder was not fitted on: 'Atlantis', 'Utopia'"


def test_categories_that_an_encoder_ignores_are_noted(tmp_path: Path) -> None:
    run = convert(tmp_path, "columns_that_ignore_other_towns", "people_of_other_towns")
    assert run.notes == (f"{OTHER_TOWNS}; it takes 2 of 15 examples for unknown",)
    assert run.value("agreement") == 1


@pytest.mark.parametrize("model", ["columns_in_words", "imputed"])
def test_categories_that_an_encoder_refuses_are_named(tmp_path: Path, model: str) -> None:
    """The message of scikit-learn named a number for the column."""
    assert refusal(tmp_path, model, "people_of_other_towns") == (
        f"{OTHER_TOWNS}\n"
        "  it was made with handle_unknown='error'; the first is in row 14\n"
        "  hint: correct the data, or fit an encoder that ignores others: handle_unknown='ignore'"
    )


def test_the_figures_are_those_of_scikit_learn(tmp_path: Path) -> None:
    run = convert(tmp_path, "pipeline", "digits", outputs=["digit", "chances"])
    rows = estimators.X[600:800]
    label, chances = answer(run, {"X": rows.astype(np.float32)}, "digit", "chances")
    fitted = estimators.pipeline()
    assert label.tolist() == fitted.predict(rows).tolist()
    assert np.abs(chances - fitted.predict_proba(rows)).max() < 1e-5


def test_float64_is_closer(tmp_path: Path) -> None:
    errors = [
        convert(tmp_path, "pipeline", "digits", precision=precision).value("max_abs_error")
        for precision in ("float32", "float64")
    ]
    assert errors[1] < errors[0]


def test_float64_where_skl2onnx_writes_trees_of_float32(tmp_path: Path) -> None:
    text = refusal(tmp_path, "regression_tree", "bodies", precision="float64")
    assert text.startswith("ONNX Runtime cannot open the converted model\n  ")
    assert text.endswith("\n  hint: skl2onnx converts some estimators for `precision: float32` alone")


def test_dictionaries_where_they_are_asked_for(tmp_path: Path) -> None:
    run = convert(tmp_path, "tree_of_names", "digits", zipmap=True)
    _, rows = answer(run, {"X": estimators.X[600:602].astype(np.float32)})
    assert set(rows[0]) == {"high", "low"}


def test_options_of_the_converter(tmp_path: Path) -> None:
    run = convert(tmp_path, "pipeline", "digits", options={"raw_scores": True})
    _, scores = answer(run, {"X": estimators.X[600:610].astype(np.float32)})
    assert np.abs(scores - estimators.pipeline().decision_function(estimators.X[600:610])).max() < 1e-3


@pytest.mark.parametrize("model", ["german_opinions", "german_counts"])
def test_words_of_other_languages(tmp_path: Path, model: str) -> None:
    run = convert(tmp_path, model, "german", options={"locale": "C.UTF-8"})
    assert run.value("agreement") == 1


def test_an_option_for_words_counts(tmp_path: Path) -> None:
    options = {"locale": "C.UTF-8", "tokenexp": "[a-z]+"}
    run = convert(tmp_path, "german_opinions", "german", options=options, min_agreement=0.0)
    (node,) = (node for node in onnx.load(run.model).graph.node if node.op_type == "Tokenizer")
    assert {item.name: item.s for item in node.attribute}["tokenexp"] == b"[a-z]+"


def test_a_folder_is_no_estimator(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    np.save(tmp_path / "X.npy", estimators.BODIES[300:])
    with pytest.raises(OrunError) as caught:
        run_stage("convert/sklearn", tmp_path, {"model": "models", "data": "X.npy", "trust_pickle": True})
    assert str(caught.value) == (
        "models is a folder, not an estimator\n"
        "  hint: name a function that returns it: model: file.py:function; or the file that joblib wrote"
    )


def test_a_pickle_is_read_when_the_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "ridge.pkl").write_bytes(estimators.pickled())
    np.save(tmp_path / "X.npy", estimators.BODIES[300:])
    params = {"model": "ridge.pkl", "data": "X.npy"}
    with pytest.raises(OrunError) as caught:
        run_stage("convert/sklearn", tmp_path, params)
    assert str(caught.value) == (
        "ridge.pkl was not read: it is a pickle, which can run any code\n"
        "  `trust_pickle` is false\n"
        "  hint: if you know where it comes from: trust_pickle: true; better, return the estimator from a function"
    )
    run = run_stage("convert/sklearn", tmp_path, {**params, "trust_pickle": True})
    assert run.value("agreement") == 1.0
    (tmp_path / "ridge.pkl").write_bytes(b"no pickle")
    with pytest.raises(OrunError) as caught:
        run_stage("convert/sklearn", tmp_path, {**params, "trust_pickle": True})
    assert caught.value.problem == "ridge.pkl cannot be unpickled"


def test_a_disagreement_names_an_example(tmp_path: Path) -> None:
    text = refusal(tmp_path, "ridge", "bodies", atol=0.0, rtol=1e-9)
    assert text.startswith("the converted model disagrees with scikit-learn in output 'variable'\n  ")
    assert " of 100 examples differ, further off than 0 + 1e-09 x |reference|\n  example " in text
    allowed = convert(tmp_path, "ridge", "bodies", atol=0.0, rtol=1e-9, min_agreement=0.0)
    assert allowed.value("agreement") < 1


def test_an_ill_conditioned_estimator(tmp_path: Path) -> None:
    """Terms of a polynomial that cancel: scikit-learn itself answers otherwise for weights rounded to float32."""
    run = convert(tmp_path, "polynomial", "ages")
    assert 0.2 < run.value("max_abs_error") < 2
    assert run.value("agreement") == 1
    (note,) = run.notes
    assert re.fullmatch(
        r"\d\d of 100 examples are off beyond the tolerance and count as equal: scikit-learn's own answers change "
        "there when what it learned is rounded to float32, and 10 times that is allowed; `precision: float64` avoids "
        "it",
        note,
    )


@pytest.mark.parametrize(
    ("model", "method", "advice"),
    [("forest_of_visits", "predict_proba", ""), ("line_of_visits", "predict", "`precision: float64`, or ")],
)
@pytest.mark.parametrize("in_file", [False, True])
def test_answers_that_change_when_inputs_are_rounded(
    tmp_path: Path, model: str, method: str, advice: str, in_file: bool
) -> None:
    data = "estimators.py:visits"
    if in_file:
        data = str(tmp_path / "visits.npz")
        arrays: dict[str, Any] = dict(estimators.visits().inputs)
        np.savez(data, **arrays)
    run = run_stage("convert/sklearn", tmp_path, {"model": f"estimators.py:{model}", "data": data}, root=MODULES)
    assert run.value("agreement") == 1
    rows = np.stack([*estimators.visits().inputs.values()], axis=1)
    rounded = rows.astype(np.float32).astype(np.float64)
    before, after = (getattr(getattr(estimators, model)(), method)(table) for table in (rows, rounded))
    changed = ~np.isclose(after, before, rtol=1e-3, atol=1e-4).reshape(200, -1).all(1)
    assert run.notes[-1] == (
        f"{np.count_nonzero(changed)} of 200 answers of scikit-learn itself change when its inputs are rounded to "
        f"float32, most in column 'ts'; the agreement leaves that out: {advice}subtract an offset from the column "
        "before"
    )


def test_answers_in_float64_need_no_rounded_inputs(tmp_path: Path) -> None:
    assert convert(tmp_path, "line_of_visits", "visits", precision="float64").notes == ()


def test_trees_on_times_that_float32_rounds(tmp_path: Path) -> None:
    text = refusal(tmp_path, "boosted_visits", "visits")
    assert text.startswith("the converted model disagrees with scikit-learn in output 'label'\n  ")
    assert (
        "\n  hint: trees of ONNX Runtime take float32 alone: subtract an offset from columns of large, close values, "
        "such as times, before fitting"
    ) in text


def test_classes_in_another_order_than_the_scores(tmp_path: Path) -> None:
    rows = zip(estimators.AGES, estimators.votes_in_words().predict(estimators.AGES[:, None]), strict=True)
    (tmp_path / "votes.csv").write_text("\n".join(["age,vote", *(f"{age},{vote}" for age, vote in rows)]))
    data = {"path": str(tmp_path / "votes.csv"), "labels": "vote", "classes": ["yes", "no"]}
    params = {"model": "estimators.py:votes_in_words", "data": data}
    with pytest.raises(OrunError) as caught:
        run_stage("convert/sklearn", tmp_path, params, root=MODULES)
    assert str(caught.value) == (
        "`classes` are yes, no; the model's scores are in the order no, yes\n  hint: classes: [no, yes]"
    )
    params = {**params, "data": {**data, "classes": ["no", "yes"]}}
    assert run_stage("convert/sklearn", tmp_path, params, root=MODULES).value("agreement") == 1


def test_a_wrong_conversion_of_an_ill_conditioned_estimator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change_answers(monkeypatch, lambda _, values: [2 * value for value in values])
    assert refusal(tmp_path, "polynomial", "ages").startswith(
        "the converted model disagrees with scikit-learn in output 'variable'\n  100 of 100 examples differ, "
    )


def test_each_output_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other labels of the first two of six examples whose scores differ."""
    first = estimators.X[600:606]

    def change(feed: Any, values: list[Any]) -> list[Any]:
        labels, scores = values
        places = (feed["X"][:, None] == first).all(2)  # [n, 6]
        return [
            np.where(places[:, :2].any(1), (labels + 1) % 10, labels),
            np.where(places.any(1)[:, None], 1 - scores, scores),
        ]

    change_answers(monkeypatch, change)
    with pytest.raises(StageFailed) as caught:
        convert(tmp_path, "pipeline", "digits")
    assert caught.value.settings == {"min_agreement": "97%"}
    text = str(caught.value)
    assert text.startswith(
        "the converted model disagrees with scikit-learn in output 'label'\n"
        "  2 of 200 examples differ; with the other outputs, 6\n"
        "  example 0: "
    )
    assert text.endswith(
        "\n  hint: try `precision: float64`; where a few rounded values may differ, say so: `min_agreement: 97%`"
    )


def test_labels_that_differ_while_scores_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def change(feed: Any, values: list[Any]) -> list[Any]:
        labels, *scores = values
        changed = (feed["X"] == estimators.X[600:603, None]).all(2).any(0)
        return [np.where(changed, (labels + 1) % 10, labels), *scores]

    change_answers(monkeypatch, change)
    assert refusal(tmp_path, "pipeline", "digits").startswith(
        "the converted model disagrees with scikit-learn in output 'label'\n  3 of 200 examples differ\n  example 0: "
    )


@pytest.mark.parametrize("examples", [1, 100])
def test_what_is_no_number_on_one_side_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, examples: int) -> None:
    def change(_: Any, values: list[Any]) -> list[Any]:
        return [np.where(np.arange(len(value))[:, None] < examples, np.nan, value) for value in values]

    change_answers(monkeypatch, change)
    text = refusal(tmp_path, "components", "digits")
    assert text.startswith("the converted model disagrees with scikit-learn in output 'variable'\n  ")
    assert "example 0: [nan nan nan] instead of [" in text


@pytest.mark.parametrize(
    ("model", "data", "params", "message"),
    [
        (
            "number",
            "digits",
            {},
            (
                "estimators.py:number must be a fitted estimator of scikit-learn\n"
                "  a int has neither `predict` nor `transform`"
            ),
        ),
        (
            "ridge",
            "bodies",
            {"outputs": ["a", "b"]},
            "the converted model has 1 outputs, and `outputs` names 2\n  skl2onnx calls them variable",
        ),
        (
            "pipeline",
            "digits",
            {"outputs": ["probabilities", "label"]},
            (
                "`outputs` gives the model's output 'label' the name 'probabilities', which another output has\n"
                "  it names them in order, and the model's own names are label, probabilities\n"
                "  hint: outputs: [label, probabilities], or other names in this order"
            ),
        ),
        (
            "ridge",
            "bodies",
            {"outputs": ["X"]},
            (
                "inputs and outputs need names that differ, and 'X' stands twice\n  inputs X; outputs X\n"
                "  hint: give the output another name in `outputs`"
            ),
        ),
        (
            "bag_of_forecasts",
            "bodies",
            {},
            (
                "output 'variable' of the converted model has another form than what scikit-learn answers\n"
                "  [300, 1] instead of [100, 3]\n"
                "  hint: skl2onnx converts it for one number an example: fit a `MultiOutputRegressor` of it"
            ),
        ),
        ("ridge", "bodies", {"outputs": [""]}, "inputs and outputs need names\n  one is empty"),
        (
            "ridge",
            "digits",
            {},
            (
                "the Ridge cannot take the examples\n"
                "  ValueError: X has 64 features, but Ridge is expecting 10 features as input.\n"
                "  hint: the log has the whole message"
            ),
        ),
        (
            "tree_of_other_names",
            "measures",
            {},
            (
                "estimators.py:measures has no column 'height'\n"
                "  the DecisionTreeClassifier was fitted with that name; the data has age, weight, woman"
            ),
        ),
        (
            "processes",
            "bodies",
            {},
            (
                "ONNX Runtime cannot open the converted model\n"
                "  it does not have the operator Solve, which skl2onnx writes\n"
                "  hint: take another estimator"
            ),
        ),
        (
            "own_function",
            "bodies",
            {},
            (
                "skl2onnx cannot convert the Pipeline\n"
                "  it has no converter for the function of a FunctionTransformer\n"
                "  hint: these have: np.exp, np.expm1, np.log, np.log1p, np.sqrt, np.square, np.absolute"
            ),
        ),
        (
            "isotonic",
            "digits",
            {},
            (
                "skl2onnx cannot convert the Pipeline\n"
                "  it does not interpolate in the isotonic calibration of a CalibratedClassifierCV\n"
                '  hint: calibrate with method="sigmoid"'
            ),
        ),
        ("ridge", "bodies", {"zipmap": True}, "`zipmap` needs probabilities, and a Ridge has none"),
        (
            "pipeline",
            "digits",
            {"options": {"zipmap": "columns"}},
            (
                "`zipmap` is a parameter of its own, not one of `options`\n"
                "  hint: `zipmap: true` beside `options`, or nothing"
            ),
        ),
    ],
)
def test_what_cannot_be_converted(tmp_path: Path, model: str, data: str, params: dict[str, Any], message: str) -> None:
    assert refusal(tmp_path, model, data, **params) == message


def test_what_skl2onnx_refuses_is_told_in_its_words(tmp_path: Path) -> None:
    unfitted = refusal(tmp_path, "unfitted", "bodies")
    assert unfitted.startswith("skl2onnx cannot convert the Ridge\n  ")
    assert "\n  hint: it does not look fitted: return model.fit(X, y); " in unfitted
    assert refusal(tmp_path, "ridge", "bodies", options={"nonsense": 1}).startswith(
        "skl2onnx cannot convert the Ridge\n  NameError: Option 'nonsense' not in [] for class 'Ridge'."
    )


@pytest.mark.parametrize(
    ("model", "data"),
    [
        ("two_answers", "digits"),
        ("answers_of_two_and_ten_classes", "digits"),
        ("forest_of_two_and_ten_classes", "digits"),
        ("two_answers_of_a_forest", "digits"),
        ("two_answers_of_neighbours", "digits"),
        ("gaps_in_two_answers", "grades_with_gaps"),
    ],
)
def test_several_answers_of_each_example(tmp_path: Path, model: str, data: str) -> None:
    """Their probabilities are an array `[n, labels, classes]`, with zeros for classes that a label does not have."""
    run = convert(tmp_path, model, data)
    assert run.value("agreement") == 1.0
    assert run.value("max_abs_error") < 1e-6
    feed = {"X": getattr(estimators, data)().inputs["X"][:5].astype(np.float32)}
    (scores,) = answer(run, feed, "probabilities")
    expected = getattr(estimators, model)().predict_proba(feed["X"])
    most = max(part.shape[1] for part in expected)
    padded = [np.pad(part, ((0, 0), (0, most - part.shape[1]))) for part in expected]
    np.testing.assert_allclose(scores, np.stack(padded, axis=1), atol=1e-6)


def test_thresholds_that_are_values_of_the_data(tmp_path: Path) -> None:
    """Where both are rounded to float32 they stay on their side; scikit-learn's thresholds stay in float64."""
    model, rows = estimators.boosted_prices(), estimators.PRICES
    rounded = rows.astype(np.float32).astype(np.float64)
    assert not np.allclose(model.predict(rounded), model.predict(rows), rtol=1e-3)
    table = tmp_path / "prices.csv"
    np.savetxt(table, rows, fmt="%.2f", delimiter=",", header="a,b,c", comments="")
    declared = {"path": str(table), "inputs": {"X": "*"}, "types": {"X": "float32"}}  # as orun init writes it
    for data in ("estimators.py:prices", declared):
        run = run_stage(
            "convert/sklearn", tmp_path, {"model": "estimators.py:boosted_prices", "data": data}, root=MODULES
        )
        assert run.value("agreement") == 1.0
        assert run.notes == ()


def test_a_class_of_the_user(tmp_path: Path) -> None:
    params = {"model": "ratios.py:fitted", "data": "ratios.py:flowers"}
    assert run_stage("convert/sklearn", tmp_path, params, root=MODULES).value("agreement") == 1
    with pytest.raises(OrunError) as caught:
        run_stage("convert/sklearn", tmp_path, {**params, "model": "ratios.py:without_converter"}, root=MODULES)
    assert str(caught.value) == (
        "skl2onnx cannot convert the Pipeline\n"
        "  it has no converter for Plain\n"
        "  hint: take another, or leave it out of the model; for a class of your own, call "
        "skl2onnx.update_registered_converter in the file of `model`"
    )


def test_what_does_not_fit_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = estimators.pipeline()[-1]
    arrays = [value for value in vars(classifier).values() if isinstance(value, np.ndarray)]
    assert count_weight_bytes(classifier) == 4 * sum(array.size for array in arrays) > 4 * 640
    assert count_weight_bytes(estimators.pipeline()) > count_weight_bytes(classifier)
    monkeypatch.setattr(memory_headroom, "LARGE", 0)
    monkeypatch.setattr(memory_headroom, "measure_free_memory", lambda: 0)
    message = refusal(tmp_path, "pipeline", "digits")
    assert re.match(r"the model takes .* kB of memory here, and 0 B are free\n", message)


def test_another_form_for_other_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As skl2onnx's own converter of such an estimator makes it."""
    alias = "SklearnQuadraticDiscriminantAnalysis"
    update_registered_converter(
        QuadraticDiscriminantAnalysis,
        alias,
        calculate_quadratic_discriminant_analysis_shapes,
        convert_quadratic_discriminant_analysis_classifier,
        options=converters.CLASSIFIER,
    )
    monkeypatch.setattr(converters, "register", lambda: None)
    assert refusal(tmp_path, "quadratic", "bodies") == (
        "output 'label' of the converted model has another form for other numbers of examples\n"
        "  [1, 1], [1, 2], [1, 97]\n"
        "  hint: skl2onnx converts this estimator for one number of examples at most: choose another"
    )


def test_columns_are_fed_as_the_model_takes_them_and_words_are_compared(tmp_path: Path) -> None:
    run = convert(tmp_path, "columns_in_words", "people")
    assert [value.name for value in onnx.load(run.model).graph.input] == ["age", "town"]
    judged_params = {"dataset": "estimators.py:judged", "metrics": ["accuracy", "f1"], "outputs": ["label"]}
    judged = run_stage("measure/accuracy", tmp_path, judged_params, inputs={"model": run.output}, root=MODULES)
    assert judged.value("accuracy") == pytest.approx(14 / 15)
    simple = {"inputs": "estimators.py:judged"}
    assert run_stage("optimize/simplify", tmp_path, simple, inputs={"model": run.output}, root=MODULES).model.exists()


def test_a_missing_word_is_an_empty_one(tmp_path: Path) -> None:
    """scikit-learn fills in NaN, the model the empty text, as texts of ONNX are never missing."""
    run = convert(tmp_path, "imputed", "people")
    ages = estimators.AGES[:2, None].astype(np.float32)
    (missing,) = answer(run, {"age": ages, "town": np.array([[""], ["Kiel"]], object)}, "probabilities")
    rows = np.array([[ages[0, 0], np.nan], [ages[1, 0], "Kiel"]], object)
    assert missing == pytest.approx(estimators.imputed().predict_proba(rows), abs=1e-5)


@pytest.mark.parametrize("model", ["imputed_without_town", "encoded_without_town", "numbered_without_town"])
def test_an_empty_text_is_the_missing_text_of_the_estimator(tmp_path: Path, model: str) -> None:
    run = convert(tmp_path, model, "people_without_town")
    assert run.value("agreement") == 1
    feed = {"age": np.ones((1, 1), np.float32), "town": np.array([[""]], object)}
    (answers,) = answer(run, feed, "probabilities")
    rows = np.array([[1.0, np.nan]], object)
    assert answers == pytest.approx(getattr(estimators, model)().predict_proba(rows), abs=1e-5)


def test_an_empty_text_is_not_a_number_of_trees(tmp_path: Path) -> None:
    run = convert(tmp_path, "numbered_without_town_as_nan", "towns")
    assert run.value("agreement") == 1
    (labels,) = answer(run, {"town": np.array([[""], ["Ulm"]], object)}, "label")
    assert labels.tolist() == [1, 0]


def test_tuples_in_tuples_are_as_they_were() -> None:
    ridge = Ridge()
    ridge.held = (("a", (1, 2)), 3)
    assert remove_wrappers(ridge).held == (("a", (1, 2)), 3)
