"""Manifests of KServe for a server's folder.

https://kserve.github.io/website/docs/reference/crd-api
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from orun.errors import UsageError

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")  # a name on Kubernetes, by RFC 1123
LONGEST = 63
# KServe requires a letter first, and builds longer names from the service's: `NAME-predictor-00001-private`.
LONGEST_SERVICE = 40
FORMAT = "orun"  # of the downloaded folder, by which KServe finds the runtime
MOUNT = "/mnt/models"  # where KServe puts what it downloads
CONTAINER = "kserve-container"  # the name that KServe looks for
LOG_VOLUME = "sample-log"
PROBE_SECONDS = 10
MEBIBYTE = 2**20


@dataclass(frozen=True)
class Service:
    """Service to describe."""

    name: str
    namespace: str  # empty for that of `kubectl`
    image: str
    storage_uri: str  # where the folder is; empty if the image holds it
    service_account: str  # with the secrets of the storage; may be empty
    cpus: float  # cores of a replica
    memory: int  # bytes of a replica
    gpus: int  # of a replica
    replicas: tuple[int, int]  # least and largest number
    start_seconds: int  # that a replica may take to be ready
    port: int  # of HTTP
    log: PurePosixPath | None  # path of the sample log in the container; None for no log


def require_names(service: Service) -> None:
    """Refuse names and addresses that the cluster would refuse.

    Raises:
        UsageError: for the first of them.
    """
    name, namespace = service.name, service.namespace
    if not LABEL.fullmatch(name) or name[0].isdigit() or len(name) > LONGEST_SERVICE:
        raise UsageError(
            f"name: {name!r:.80} is no name of a service on KServe",
            why=f"allowed are up to {LONGEST_SERVICE} lower-case letters, digits and `-`, a letter first",
            hint="set `name`",
        )
    if namespace and (not LABEL.fullmatch(namespace) or len(namespace) > LONGEST):
        raise UsageError(
            f"namespace: {namespace!r:.80} is no name on Kubernetes",
            why=f"allowed are up to {LONGEST} lower-case letters, digits and `-`, no `-` first or last",
            hint="set `namespace`",
        )
    if not service.image or any(map(str.isspace, service.image)):
        raise UsageError(f"image: {service.image!r:.80} is no container image", hint="name it: registry/digits:1.2.0")
    if service.storage_uri and not urlsplit(service.storage_uri).scheme:
        raise UsageError(f"storage_uri: {service.storage_uri!r:.80} is no address", hint="write s3://bucket/folder")


def render_service(service: Service) -> dict[str, Any]:
    """Return the InferenceService."""
    predictor: dict[str, Any] = {"minReplicas": service.replicas[0], "maxReplicas": service.replicas[1]}
    if service.service_account:
        predictor["serviceAccountName"] = service.service_account
    if service.storage_uri:
        predictor["model"] = {
            "modelFormat": {"name": FORMAT},
            "runtime": service.name,
            "protocolVersion": "v2",
            "storageUri": service.storage_uri,
            "resources": _build_resources(service),
        }
    else:
        protocol = {"name": "PROTOCOL", "value": "v2"}  # by which KServe knows a container's protocol, v1 by default
        predictor["containers"] = [
            _build_container(service) | {"env": [protocol], "resources": _build_resources(service)}
        ]
        predictor |= _build_volumes(service)
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": _build_metadata(service),
        "spec": {"predictor": predictor},
    }


def render_runtime(service: Service) -> dict[str, Any]:
    """Return the ServingRuntime that starts the program of the downloaded folder."""
    command = ["python", f"{MOUNT}/runtime.py", "--host", "0.0.0.0"]  # noqa: S104 - of the container alone
    if service.log:
        command += ["--sample-log", str(service.log)]
    return {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ServingRuntime",
        "metadata": _build_metadata(service),
        "spec": {
            "supportedModelFormats": [{"name": FORMAT, "autoSelect": False}],
            "protocolVersions": ["v2"],
            "containers": [_build_container(service) | {"command": command}],
            **_build_volumes(service),
        },
    }


def _build_metadata(service: Service) -> dict[str, str]:
    return {"name": service.name, **({"namespace": service.namespace} if service.namespace else {})}


def _build_container(service: Service) -> dict[str, Any]:
    def build_probe(path: str, failures: int) -> dict[str, Any]:
        return {
            "httpGet": {"path": path, "port": service.port},
            "periodSeconds": PROBE_SECONDS,
            "failureThreshold": failures,
        }

    mounts = [{"name": LOG_VOLUME, "mountPath": str(service.log.parent)}] if service.log else []
    return {
        "name": CONTAINER,
        "image": service.image,
        "ports": [{"containerPort": service.port, "protocol": "TCP"}],
        "startupProbe": build_probe("/v2/health/ready", -(-service.start_seconds // PROBE_SECONDS)),
        "readinessProbe": build_probe("/v2/health/ready", 3),
        "livenessProbe": build_probe("/v2/health/live", 3),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
        },
        **({"volumeMounts": mounts} if mounts else {}),
    }


def _build_volumes(service: Service) -> dict[str, Any]:
    """Return the volume of the sample log: the server's user may write it, and it outlives the container."""
    return {"volumes": [{"name": LOG_VOLUME, "emptyDir": {}}]} if service.log else {}


def _build_resources(service: Service) -> dict[str, dict[str, str]]:
    """Return equal requests and limits, so that a replica is measured under the resources that it has."""
    amounts = {"cpu": f"{round(1000 * service.cpus)}m", "memory": f"{-(-service.memory // MEBIBYTE)}Mi"}
    if service.gpus:
        amounts["nvidia.com/gpu"] = str(service.gpus)
    return {"requests": dict(amounts), "limits": amounts}
