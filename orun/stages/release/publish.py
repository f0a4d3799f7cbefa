"""Publish a release: copy the files of a bundle to where people and servers take them from.

`to` names the destination:

- a folder relative to the pipeline file, or `file:///...`
- `s3://...`, `gs://...`, `az://...`: a bucket (needs the extra `remote`)
- `hf://owner/name` or `hf://owner/name@revision`: a model repository of a Hugging Face hub (`HF_ENDPOINT`, `HF_TOKEN`;
  needs the extra `hub`)
- `mlflow://experiment`: the artifacts of a run of MLflow (`MLFLOW_TRACKING_URI`; needs the extra `mlflow`)
- `oci://registry/repository:tag`: an OCI artifact (credentials as `docker login` stores them; needs the extra `oci`)

Credentials come from the environment. If a destination does not answer, orun tries up to five times, for at most a
minute. The stage waits for the gates on the bundle and its content, and for `release/serve-check`.

A release is complete once its manifest is there. The manifest is written last, and the manifest of a replaced release
is removed first. In a folder or bucket, the note `.orun-publishing.json` marks an unfinished release: the next stage
that publishes there removes its files, and of two that publish at the same time one fails. A complete release stays as
it is. Another release, or an unfinished one, is replaced only with `overwrite: true`.

A release on a hub is a commit that removes all other files of the repository. A repository with files and no release is
therefore refused as well without `overwrite: true`. A repository that does not exist is created with the hub's default
visibility.

The artifact is `receipt.json`: what was published, and where. While the receipt is stored, orun does not publish again,
even if somebody removed the release; `--force` publishes again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from orun.core.metrics import COUNT, SIZE
from orun.errors import UsageError
from orun.stages.contract import Context, Port, Spec
from orun.stages.params import Doc
from orun.text.lists import join_few

if TYPE_CHECKING:
    from orun.stages.release._destination import Publisher

RECEIPT = "receipt.json"

SPEC = Spec(
    inputs={"bundle": Port(("bundle",), "The release.")},
    output="files",
    metrics={"size": SIZE, "files": COUNT},
    releases=True,
)


@dataclass(frozen=True)
class Params:
    """Parameters of `release/publish`."""

    to: Annotated[str, Doc("Destination: a folder or a URL, see above.")]
    overwrite: Annotated[bool, Doc("Replace another release at the destination.")] = False


def packages(params: Params, _root: Path) -> Mapping[str, str]:
    """Return the packages that the destination needs."""
    from orun.stages.release._publishing import find_package

    package = find_package(params.to)
    place = params.to.partition("://")[0]  # without the rest, which may hold credentials
    return {package: f"`to: {place}://...`"} if package else {}


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Check the bundle, copy it, and write the receipt."""
    from orun.stages.release._manifest import MANIFEST, verify_bundle
    from orun.stages.release._publishing import build_publisher

    bundle = context.inputs["bundle"]
    if problems := verify_bundle(bundle):
        raise context.failed("the bundle is damaged, so it is not published", why="\n".join(problems))
    manifest = json.loads((bundle / MANIFEST).read_bytes())
    names = [*(entry["path"] for entry in manifest["files"]), MANIFEST]  # the manifest last
    publisher = build_publisher(params.to, context.root)
    if not _is_published(context, params, publisher, manifest["digest"], names):
        publisher.publish(bundle, names)
        context.log.info("published %d files to %s", len(names), params.to)
    _write_receipt(context, params, manifest, publisher.read_reference())
    size = sum((bundle / name).stat().st_size for name in names)
    return {"size": size, "files": len(names)}


def _is_published(context: Context, params: Params, publisher: Publisher, digest: str, names: Sequence[str]) -> bool:
    """Return whether the destination already holds the release; refuse to replace another one without `overwrite`."""
    present = publisher.read_manifest_digest()
    if present == digest:
        if not (lacking := publisher.list_missing_files(context.inputs["bundle"], names)):
            context.log.info("%s already holds this release", params.to)
            return True
        context.log.warning("%s holds this release without %s: published again", params.to, ", ".join(lacking))
    elif present and not params.overwrite:
        raise UsageError(
            f"{params.to} holds another release",
            why=f"its manifest has the digest {present}\nthat of this release is {digest}",
            hint="publish to another place, or set `overwrite: true`",
        )
    elif not present and not params.overwrite and (begun := publisher.read_unfinished_digest()) not in ("", digest):
        raise UsageError(
            f"another release is being published to {params.to}, or its publishing was interrupted",
            why=f"its manifest has the digest {begun}\nthat of this release is {digest}",
            hint="wait until it is published; if it was interrupted, set `overwrite: true` or publish to another place",
        )
    elif not present and not params.overwrite and (files := publisher.list_other_files()):
        raise UsageError(
            f"{params.to} holds files that belong to no release",
            why=f"publishing would remove {join_few(files)}",
            hint="publish to another place, or set `overwrite: true`",
        )
    return False


def _write_receipt(context: Context, params: Params, manifest: Mapping[str, object], reference: str) -> None:
    from orun.stages.release._manifest import write_json

    release = {name: manifest[name] for name in ("name", "version", "digest", "files")}
    write_json(context.output / RECEIPT, {"to": params.to, "reference": reference, **release})
