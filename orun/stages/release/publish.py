"""Publish a release: copy the files of a bundle to where people and servers take them from.

`to` names the destination:

- a folder relative to the pipeline file, or `file:///...`
- `s3://...`, `gs://...`, `az://...`: a bucket (needs the extra `remote`)
- `hf://owner/name` or `hf://owner/name@revision`: a model repository of a Hugging Face hub (`HF_ENDPOINT`, `HF_TOKEN`;
  needs the extra `hub`)
- `mlflow://experiment`: the artifacts of a run of MLflow (`MLFLOW_TRACKING_URI`; needs the extra `mlflow`)
- `oci://registry/repository:tag`: an OCI artifact (credentials as `docker login` stores them; needs the extra `oci`)

Credentials come from the environment. A destination that does not answer is tried up to five times, for a minute at
most. The stage waits for the gates on the bundle and its content, and for `release/serve-check`.

A release exists once its manifest does: the manifest is written last, and that of a replaced release is removed first.
In a folder or bucket the note `.orun-publishing.json` marks an unfinished publication. By it the next one removes what
an interrupted one left, and of two at the same time one is refused. A release that is complete there already stays as
it is. Another release, or an unfinished one, is replaced only with `overwrite: true`.

The artifact is `receipt.json`: what was published where. orun does not publish again while the receipt is stored, even
if somebody removed the release; `--force` does.
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
    """Parameters of `release/publish`."""

    to: Annotated[str, Doc("Destination: a folder or a URL, see above.")]
    overwrite: Annotated[bool, Doc("Replace another release at the destination.")] = False


def packages(params: Params, _root: Path) -> Mapping[str, str]:
    """Return the packages that the destination needs."""
    from orun.stages.release._publishing import package_of

    package = package_of(params.to)
    place = params.to.partition("://")[0]  # without the rest, which may hold credentials
    return {package: f"`to: {place}://...`"} if package else {}


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Check the bundle, copy it, and write the receipt."""
    from orun.stages.release._manifest import MANIFEST, verify_bundle
    from orun.stages.release._publishing import publisher_for

    bundle = context.inputs["bundle"]
    if problems := verify_bundle(bundle):
        raise StageFailed(context.stage, "the bundle is not whole, so it is not published", why="\n".join(problems))
    manifest = json.loads((bundle / MANIFEST).read_bytes())
    names = [*(entry["path"] for entry in manifest["files"]), MANIFEST]  # the manifest last
    publisher = publisher_for(params.to, context.root)
    if not _is_published(context, params, publisher, manifest["digest"], names):
        publisher.publish(bundle, names)
        context.log.info("published %d files to %s", len(names), params.to)
    _write_receipt(context, params, manifest, publisher.reference())
    size = sum((bundle / name).stat().st_size for name in names)
    return {"size": Metric(size, "B"), "files": Metric(len(names))}


def _is_published(context: Context, params: Params, publisher: Publisher, digest: str, names: Sequence[str]) -> bool:
    """Return whether the release is there already; refuse to replace another one without `overwrite`."""
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


def _write_receipt(context: Context, params: Params, manifest: Mapping[str, object], reference: str) -> None:
    from orun.stages.release._manifest import write_json

    release = {name: manifest[name] for name in ("name", "version", "digest", "files")}
    write_json(context.output / RECEIPT, {"to": params.to, "reference": reference, **release})
