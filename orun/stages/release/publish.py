"""Publish a release: copy the files of a bundle to where people and servers take them from.

`to` says where:

- a folder relative to the pipeline file, or `file:///...`
- `s3://...`, `gs://...`, `az://...`: a bucket (needs the extra `remote`)
- `hf://owner/name` or `hf://owner/name@revision`: a model repository of a Hugging Face hub (`HF_ENDPOINT`, `HF_TOKEN`)
- `mlflow://experiment`: the artifacts of a run of MLflow (`MLFLOW_TRACKING_URI`; needs the extra `mlflow`)
- `oci://registry/repository:tag`: an OCI artifact (needs the extra `oci`)

The manifest is written last, so that a release is there when its manifest is. What is there already with the same
manifest is left alone; another release is only replaced with `overwrite: true`. Credentials come from the environment.

The artifact is `receipt.json`: what was published where. A release that was published is not published again while its
receipt is stored, even when somebody has removed it meanwhile: `--force` does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from orun.errors import StageFailed, UsageError
from orun.metrics import Metric
from orun.stages.contract import Context, Port, Spec
from orun.stages.params import Doc

RECEIPT = "receipt.json"

SPEC = Spec(
    inputs={"bundle": Port(("bundle",), "The release.")},
    output="files",
    metrics=("size", "files"),
)


@dataclass(frozen=True)
class Params:
    """Where to."""

    to: Annotated[str, Doc("A folder or an URL; see above.")]
    overwrite: Annotated[bool, Doc("Whether another release that is there may be replaced.")] = False


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Check the bundle, copy it, and leave the receipt."""
    from orun.bundle import MANIFEST, verify_bundle
    from orun.stages.releasing.publishing import publisher_for

    bundle = context.inputs["bundle"]
    if problems := verify_bundle(bundle):
        raise StageFailed(context.stage, "the bundle is not whole, so it is not published", why="\n".join(problems))
    manifest = json.loads((bundle / MANIFEST).read_bytes())
    names = [*(entry["path"] for entry in manifest["files"]), MANIFEST]  # the manifest last
    publisher = publisher_for(params.to, context.root)
    there = publisher.manifest()
    if there == manifest["digest"]:
        context.log.info("%s holds this release already", params.to)
    elif there and not params.overwrite:
        raise UsageError(
            f"{params.to} holds another release",
            why=f"its manifest has the digest {there}\nthat of this release is {manifest['digest']}",
            hint="publish to another place, or say `overwrite: true`",
        )
    else:
        publisher.publish(bundle, names)
        context.log.info("published %d files to %s", len(names), params.to)
    _leave_receipt(context, params, manifest, publisher.reference())
    size = sum((bundle / name).stat().st_size for name in names)
    return {"size": Metric(size, "B"), "files": Metric(len(names))}


def _leave_receipt(context: Context, params: Params, manifest: Mapping[str, object], reference: str) -> None:
    from orun.bundle import write_json

    told = {name: manifest[name] for name in ("name", "version", "digest", "files")}
    write_json(context.output / RECEIPT, {"to": params.to, "reference": reference, **told})
