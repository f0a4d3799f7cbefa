"""Write the manifests that run a server of `release/server` on KServe.

    kubectl apply -f FOLDER

- `inferenceservice.yaml`: the service, with the protocol v2, probes, resources and numbers of replicas.
- `servingruntime.yaml`, with `storage_uri`: the runtime that starts the program from the downloaded folder.

Without `storage_uri`, the container image holds the whole folder: build it with the folder's `Containerfile`. With
`storage_uri`, KServe downloads the folder, and the image needs only the packages of its lock. Publish the folder there
with `release/publish`.

With `sample_log`, the log lies in a volume of the pod, which ends with it. Ship the log, or mount a volume of your own.

Each field is one of KServe's API `serving.kserve.io`: `v1beta1` for the service, `v1alpha1` for the runtime.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from orun.stages.contract import Context, Port, Spec
from orun.stages.params import Doc, Range, Size

SPEC = Spec(
    inputs={"server": Port(("bundle",), "The folder of `release/server`.")},
    output="files",
    releases=True,
    kept=True,
)


@dataclass(frozen=True)
class Params:
    """Parameters of `release/kserve`."""

    image: Annotated[str, Doc("Container image, with its registry and a tag or digest.")]
    name: Annotated[str, Doc("Name of the service; by default the model's, in lower case.")] = ""
    namespace: Annotated[str, Doc("Namespace of the manifests; that of `kubectl` if empty.")] = ""
    storage_uri: Annotated[
        str,
        Doc("Where KServe downloads the folder from (`s3://...`, `gs://...`, `hf://...`, `oci://...`, `pvc://...`)."),
    ] = ""
    service_account: Annotated[str, Doc("Service account, with the secrets of the storage.")] = ""
    cpus: Annotated[float, Doc("Cores of a replica."), Range(0.001)] = 1.0
    memory: Annotated[Size, Doc("Memory of a replica."), Range(1)] = Size(2**30)
    gpus: Annotated[int, Doc("GPUs of a replica, as `nvidia.com/gpu`."), Range(0)] = 0
    min_replicas: Annotated[int, Doc("Least number of replicas; 0 lets Knative stop the last one."), Range(0)] = 1
    max_replicas: Annotated[int, Doc("Largest number of replicas."), Range(1)] = 3
    start_time: Annotated[int, Doc("Seconds that a replica may take to be ready."), Range(1)] = 300


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Write the manifests."""
    import json

    import yaml

    from orun.measure.model_server import SETTINGS
    from orun.stages.release._container_log import locate_log
    from orun.stages.release._kserve_manifests import Service, render_runtime, render_service, require_names

    path = context.inputs["server"] / SETTINGS
    if not path.is_file():
        raise context.failed(
            "the bundle has no server",
            hint="connect a stage of `release/server`",
        )
    if params.min_replicas > params.max_replicas:
        raise context.failed(
            f"min_replicas is {params.min_replicas}, and max_replicas is {params.max_replicas}",
            hint="set `max_replicas` to at least `min_replicas`",
        )
    settings: dict[str, Any] = json.loads(path.read_bytes())
    service = Service(
        name=params.name or settings["name"].lower().replace("_", "-").replace(".", "-"),
        namespace=params.namespace,
        image=params.image,
        storage_uri=params.storage_uri,
        service_account=params.service_account,
        cpus=params.cpus,
        memory=params.memory,
        gpus=params.gpus,
        replicas=(params.min_replicas, params.max_replicas),
        start_seconds=params.start_time,
        port=settings["http_port"],
        log=locate_log(settings),
    )
    require_names(service)
    if service.name != settings["name"]:
        context.note(
            f"the service is {service.name!r} and its model {settings['name']!r}: "
            f"send requests to /v2/models/{settings['name']}/infer, not to the path in the service's status"
        )
    manifests = {"inferenceservice.yaml": render_service(service)}
    if params.storage_uri:
        manifests["servingruntime.yaml"] = render_runtime(service)
    for name, manifest in manifests.items():
        (context.output / name).write_text(yaml.safe_dump(manifest, sort_keys=False), "utf-8")
    return {}
