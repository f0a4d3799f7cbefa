"""History for other tools."""

from __future__ import annotations

import math

import pytest

from orun.core.serialization import replace
from orun.errors import UsageError
from orun.history.export import to_csv, to_mlflow
from tests.history.support import point


def test_csv_has_a_column_for_each_field() -> None:
    assert to_csv([point(0.008, 10)]) == (
        "pipeline,stage,uses,metric,value,low,high,unit,better,noise,host,machine,key,run,measured_at,runtime\n"
        f"bert,latency,measure/latency,p50,0.008,,,s,lower,timing,builder,0123456789ab,{'c' * 64},run-10,10,\n"
    )


# MLflow asks SQLAlchemy for what its next release will not have.
noload = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database of MLflow's, whose tables take it seconds to make."""
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow')}/mlflow.db"


@pytest.mark.slow
@noload
def test_mlflow_gets_every_run_once(uri: str) -> None:
    from mlflow import MlflowClient

    points = [point(0.008, 10), point(0.009, 20), point(math.nan, 30)]
    assert to_mlflow(points[:1], uri) == 1
    assert to_mlflow(points, uri) == 2
    client = MlflowClient(tracking_uri=uri)
    (experiment,) = [listed for listed in client.search_experiments() if listed.name == "bert"]
    runs = {run.data.tags["orun.run"]: run for run in client.search_runs([experiment.experiment_id])}
    assert {name: run.data.metrics for name, run in runs.items()} == {
        "run-10": {"latency.p50": 0.008},
        "run-20": {"latency.p50": 0.009},
        "run-30": {},
    }
    assert runs["run-10"].data.tags["orun.host"] == "builder"
    assert (runs["run-10"].info.start_time, runs["run-10"].info.status) == (10_000, "FINISHED")


@pytest.mark.slow
@noload
def test_a_run_that_was_logged_in_part_is_logged_again(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    def refuse(*_: object, **__: object) -> None:
        raise MlflowException("busy")

    later = [replace(point(0.008, 40), pipeline="another")]
    with monkeypatch.context() as patched:
        patched.setattr(MlflowClient, "log_batch", refuse)
        with pytest.raises(UsageError, match=r" did not take the measurements\n  busy$"):
            to_mlflow(later, uri)
    assert [to_mlflow(later, uri) for _ in range(2)] == [1, 0]


def test_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(UsageError) as caught:
        to_mlflow([point(0.008, 10)], "http://127.0.0.1:9")
    assert caught.value.problem == "MLflow at http://127.0.0.1:9 did not take the measurements"
    assert "127.0.0.1" in caught.value.why
