"""`release/kserve`: manifests for a server's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from orun.errors import OrunError
from tests.stages.support import StageRun, digest, run_stage

from .support import make_bundle
from .test_server import make

KUBERNETES = "1.34"
AMOUNTS = {"cpu": "500m", "memory": "1024Mi"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("server"), http_port=8000).output


def write(folder: Path, server: Path, **params: Any) -> StageRun:
    return run_stage("release/kserve", folder, {"image": "registry/scale:1.0", **params}, inputs={"server": server})


def read(run: StageRun, name: str) -> dict[str, Any]:
    manifest: dict[str, Any] = yaml.safe_load((run.output / name).read_text("utf-8"))
    return manifest


def require_pod(container: dict[str, Any]) -> None:
    """Check a container as Kubernetes does that of a pod."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    kubernetes_validate.validate(pod, KUBERNETES, strict=True)


def test_an_image_with_the_folder(tmp_path: Path, server: Path) -> None:
    run = write(tmp_path, server, namespace="models", cpus=0.5, min_replicas=0, start_time=95)
    assert [path.name for path in run.output.iterdir()] == ["inferenceservice.yaml"]
    manifest = read(run, "inferenceservice.yaml")
    (container,) = manifest["spec"]["predictor"].pop("containers")
    assert manifest == {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "scale", "namespace": "models"},
        "spec": {"predictor": {"minReplicas": 0, "maxReplicas": 3}},
    }
    require_pod(container)
    assert container["name"] == "kserve-container"
    assert container["ports"] == [{"containerPort": 8000, "protocol": "TCP"}]
    assert container["startupProbe"] == {
        "httpGet": {"path": "/v2/health/ready", "port": 8000}, "periodSeconds": 10, "failureThreshold": 10,
    }  # fmt: skip
    assert container["resources"] == {"requests": AMOUNTS, "limits": AMOUNTS}
    assert container["env"] == [{"name": "PROTOCOL", "value": "v2"}]
    assert run.notes == (
        (
            "the service is 'scale' and its model 'Scale': "
            "send requests to /v2/models/Scale/infer, not to the path in the service's status"
        ),
    )
    assert write(tmp_path, make(tmp_path, name="scale").output).notes == ()


def test_a_namespace_may_be_longer_than_a_name_and_begin_with_a_digit(tmp_path: Path, server: Path) -> None:
    namespace = "2026-" + "m" * 58
    manifest = read(write(tmp_path, server, namespace=namespace), "inferenceservice.yaml")
    assert manifest["metadata"] == {"name": "scale", "namespace": namespace}


def test_the_same_bytes_again(tmp_path: Path, server: Path) -> None:
    first, second = (digest(write(tmp_path, server).output) for _ in range(2))
    assert first == second


def test_a_folder_that_kserve_downloads(tmp_path: Path, server: Path) -> None:
    uri = "s3://releases/scale-1.0"
    run = write(tmp_path, server, name="scale-a", storage_uri=uri, service_account="reader", gpus=1)
    assert sorted(path.name for path in run.output.iterdir()) == ["inferenceservice.yaml", "servingruntime.yaml"]
    amounts = {"cpu": "1000m", "memory": "1024Mi", "nvidia.com/gpu": "1"}
    predictor = read(run, "inferenceservice.yaml")["spec"]["predictor"]
    assert predictor == {
        "minReplicas": 1,
        "maxReplicas": 3,
        "serviceAccountName": "reader",
        "model": {
            "modelFormat": {"name": "orun"},
            "runtime": "scale-a",
            "protocolVersion": "v2",
            "storageUri": uri,
            "resources": {"requests": amounts, "limits": amounts},
        },
    }
    runtime = read(run, "servingruntime.yaml")
    assert (runtime["kind"], runtime["metadata"]) == ("ServingRuntime", {"name": "scale-a"})
    assert runtime["spec"]["supportedModelFormats"] == [{"name": "orun", "autoSelect": False}]
    (container,) = runtime["spec"]["containers"]
    require_pod(container)
    assert container["command"] == ["python", "/mnt/models/runtime.py", "--host", "0.0.0.0"]  # noqa: S104 - in a pod


def test_the_sample_log_has_a_volume(tmp_path: Path) -> None:
    server = make(tmp_path, sample_log="requests.jsonl").output
    predictor = read(write(tmp_path, server), "inferenceservice.yaml")["spec"]["predictor"]
    runtime = read(write(tmp_path, server, storage_uri="s3://releases/scale"), "servingruntime.yaml")["spec"]
    for pod in (predictor, runtime):
        assert pod["volumes"] == [{"name": "sample-log", "emptyDir": {}}]
        require_pod(pod["containers"][0])
        assert pod["containers"][0]["volumeMounts"] == [{"name": "sample-log", "mountPath": "/var/log/model"}]
    assert runtime["containers"][0]["command"][-2:] == ["--sample-log", "/var/log/model/requests.jsonl"]


NO_NAME = (
    "name: '{}' is no name of a service on KServe\n"
    "  allowed are up to 40 lower-case letters, digits and `-`, a letter first\n  hint: set `name`"
)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"name": "Scale_1"}, NO_NAME.format("Scale_1")),
        ({"name": "1st"}, NO_NAME.format("1st")),
        (
            {"namespace": "-"},
            (
                "namespace: '-' is no name on Kubernetes\n"
                "  allowed are up to 63 lower-case letters, digits and `-`, no `-` first or last\n"
                "  hint: set `namespace`"
            ),
        ),
        ({"image": "a b"}, "image: 'a b' is no container image\n  hint: name it: registry/digits:1.2.0"),
        ({"storage_uri": "bucket"}, "storage_uri: 'bucket' is no address\n  hint: write s3://bucket/folder"),
        (
            {"min_replicas": 4},
            "min_replicas is 4, and max_replicas is 3\n  hint: set `max_replicas` to at least `min_replicas`",
        ),
    ],
)
def test_what_the_cluster_would_refuse(tmp_path: Path, server: Path, params: dict[str, Any], message: str) -> None:
    with pytest.raises(OrunError) as caught:
        write(tmp_path, server, **params)
    assert str(caught.value) == message


def test_a_bundle_without_a_server(tmp_path: Path) -> None:
    with pytest.raises(OrunError) as caught:
        write(tmp_path, make_bundle(tmp_path).output)
    assert str(caught.value) == "the bundle has no server\n  hint: connect a stage of `release/server`"
