"""Publish a release: copy the files of a bundle to where people and servers take them from.

`to` says where:

- a folder relative to the pipeline file, or `file:///...`
- `s3://...`, `gs://...`, `az://...`: a bucket (needs the extra `remote`)
- `hf://owner/name` or `hf://owner/name@revision`: a model repository of a Hugging Face hub (`HF_ENDPOINT`, `HF_TOKEN`;
  needs the extra `hub`)
- `mlflow://experiment`: the artifacts of a run of MLflow (`MLFLOW_TRACKING_URI`; needs the extra `mlflow`)
- `oci://registry/repository:tag`: an OCI artifact (credentials as `docker login` stores them; needs the extra `oci`)

The manifest is written last, and that of a release that is replaced is removed first: a release is there when its
manifest is. In a folder or bucket a note, `.orun-publishing.json`, lies beside the files meanwhile. By it the next one
who publishes after an interruption removes what is left over, and of two at the same time one is refused. What is there
already with the same manifest and all its files is left alone; another release, or what is left of one that was not
published to its end, is only replaced with `overwrite: true`. Credentials come from the environment. A place that does
not answer is tried up to five times and given up within a minute. It waits for the gates on the bundle and on what is
in it, and for `release/serve-check`.

The artifact is `receipt.json`: what was published where. A release that was published is not published again while its
receipt is stored, even when somebody has removed it meanwhile: `--force` does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from orun.core.metrics import Metric
from orun.errors import StageFailed, UsageError
from orun.stages.contract import Context, Port, Spec
from orun.stages.params import Doc

if TYPE_CHECKING:
    from orun.stages.release._destination import Publisher

RECEIPT = "receipt.json"

SPEC = Spec(
    inputs={"bundle": Port(("bundle",), "The release.")},
    output="files",
    metrics=("size", "files"),
    releases=True,
)


@dataclass(frozen=True)
class Params:
    """Where to."""

    to: Annotated[str, Doc("A folder or an URL; see above.")]
    overwrite: Annotated[bool, Doc("Whether another release that is there may be replaced.")] = False


def packages(params: Params, _root: Path) -> Mapping[str, str]:
    """What the place asks for."""
    from orun.stages.release._publishing import package_of

    package = package_of(params.to)
    place = params.to.partition("://")[0]  # no more of it: an URL may hold what is not to be shown
    return {package: f"`to: {place}://...`"} if package else {}


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Check the bundle, copy it, and leave the receipt."""
    from orun.stages.release._manifest import MANIFEST, verify_bundle
    from orun.stages.release._publishing import publisher_for

    bundle = context.inputs["bundle"]
    if problems := verify_bundle(bundle):
        raise StageFailed(context.stage, "the bundle is not whole, so it is not published", why="\n".join(problems))
    manifest = json.loads((bundle / MANIFEST).read_bytes())
    names = [*(entry["path"] for entry in manifest["files"]), MANIFEST]  # the manifest last
    publisher = publisher_for(params.to, context.root)
    if not _is_there(context, params, publisher, manifest["digest"], names):
        publisher.publish(bundle, names)
        context.log.info("published %d files to %s", len(names), params.to)
    _leave_receipt(context, params, manifest, publisher.reference())
    size = sum((bundle / name).stat().st_size for name in names)
    return {"size": Metric(size, "B"), "files": Metric(len(names))}


def _is_there(context: Context, params: Params, publisher: Publisher, digest: str, names: Sequence[str]) -> bool:
    """Whether the release is there already; UsageError when another is, which may not be replaced."""
    there = publisher.manifest()
    if there == digest:
        if not (lacking := publisher.lacks(context.inputs["bundle"], names)):
            context.log.info("%s holds this release already", params.to)
            return True
        context.log.warning("%s holds this release without %s: published again", params.to, ", ".join(lacking))
    elif there and not params.overwrite:
        raise UsageError(
            f"{params.to} holds another release",
            why=f"its manifest has the digest {there}\nthat of this release is {digest}",
            hint="publish to another place, or say `overwrite: true`",
        )
    elif not there and not params.overwrite and (begun := publisher.unfinished()) not in ("", digest):
        raise UsageError(
            f"another release is being published to {params.to}, or that was interrupted",
            why=f"its manifest has the digest {begun}\nthat of this release is {digest}",
            hint="wait for it; or, where nothing publishes any more, publish to another place or say `overwrite: true`",
        )
    return False


def _leave_receipt(context: Context, params: Params, manifest: Mapping[str, object], reference: str) -> None:
    from orun.stages.release._manifest import write_json

    told = {name: manifest[name] for name in ("name", "version", "digest", "files")}
    write_json(context.output / RECEIPT, {"to": params.to, "reference": reference, **told})
