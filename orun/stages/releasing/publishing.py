"""Where a release can be published: a folder or bucket, a Hugging Face hub, MLflow, an OCI registry."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Protocol
from urllib.parse import urlsplit

from orun.bundle import MANIFEST
from orun.errors import UsageError

LARGEST_MANIFEST = 64 << 20  # bytes
IMAGE_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
LAYER = "application/octet-stream"
TITLE = "org.opencontainers.image.title"
ANNOTATION = "org.orun.manifest"
BUCKETS = ("file", "s3", "s3a", "gs", "az", "azure", "abfs", "abfss")


class Publisher(Protocol):
    """A place that takes a release."""

    def manifest(self) -> str:
        """The digest of the manifest that is there; empty when there is none."""

    def publish(self, bundle: Path, names: Sequence[str]) -> None:
        """Copy these files of a bundle in this order, in the place of what was there."""

    def reference(self) -> str:
        """What was published, by a name that does not move: a commit, a digest; empty when there is none."""


def publisher_for(to: str, root: Path) -> Publisher:
    """The publisher for the parameter `to`.

    Args:
        to: a folder or an URL.
        root: what a folder is relative to.

    Raises:
        UsageError: when nothing is known of such an URL, it holds credentials, or what it needs is not installed.
    """
    if not to.strip():
        raise UsageError("`to` is empty", why="the files of a release need a folder of their own")
    scheme, separator, rest = to.partition("://")
    if not separator:
        return _Bucket((root / to).resolve().as_uri())
    _require_no_secrets(to)
    if scheme in BUCKETS:
        return _Bucket(to)
    if scheme == "hf":
        return _Hub(rest)
    if scheme == "mlflow":
        return _MLflow(rest)
    if scheme == "oci":
        return _Registry(rest)
    expected = "a folder, file://, s3://, gs://, az://, hf://, mlflow:// or oci://"
    raise UsageError(f"a release cannot be published to {scheme}://", why=f"expected {expected}")


def _require_no_secrets(to: str) -> None:
    """Refuse a user's name, password or token in a URL, and do not show it: receipts and logs would hold it."""
    try:
        address = urlsplit(to)
    except ValueError as error:  # brackets that do not match
        raise UsageError("`to` is no URL", why=str(error)) from error
    if address.username is not None or address.query:
        raise UsageError(
            f"`to` must not hold credentials or a query: {address.scheme}://...",
            why="what the pipeline file says is stored with its results",
            hint="credentials come from the environment, as each place has them; see docs/stages.md",
        )


def digest_of(manifest: bytes | None) -> str:
    """The digest that a manifest has; a text of its own for what is no manifest, and empty when there is none."""
    if manifest is None:
        return ""
    try:
        return str(json.loads(manifest)["digest"])
    except (ValueError, KeyError, TypeError):
        return "none: it is no manifest of a bundle"


@contextmanager
def _needing(extra: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise UsageError(
            "what publishing there needs is not installed", why=str(error), hint=f'pip install "orun[{extra}]"'
        ) from error


@contextmanager
def _refused(place: str, *errors: type[Exception]) -> Iterator[None]:
    try:
        yield
    except errors as error:
        raise UsageError(f"{place} did not take the release", why=str(error).partition("\n")[0]) from error


class _Bucket:
    """A folder, or a bucket; files of the release before that the new one lacks are removed."""

    def __init__(self, url: str) -> None:
        with _needing("remote"):
            from orun.remote.bucket import Bucket, DeniedError, UnreachableError
        self._url = url
        self._errors = (DeniedError, UnreachableError, ValueError)
        with _refused(url, *self._errors):
            self._bucket = Bucket(url)

    def manifest(self) -> str:
        with _refused(self._url, *self._errors):
            return digest_of(self._bucket.read(MANIFEST, LARGEST_MANIFEST))

    def publish(self, bundle: Path, names: Sequence[str]) -> None:
        with _refused(self._url, *self._errors):
            before = self._bucket.read(MANIFEST, LARGEST_MANIFEST)
            for name in names:
                path = bundle / name
                self._bucket.upload(name, str(path), path.stat().st_size)
            for name in sorted(_listed(before) - set(names)):
                self._bucket.remove(name)

    def reference(self) -> str:
        return ""


def _listed(manifest: bytes | None) -> set[str]:
    """Files of the release that a manifest found there names; it may be anybody's, so that none outside is taken."""
    try:
        names = [PurePosixPath(entry["path"]) for entry in json.loads(manifest or b"{}").get("files", ())]
    except (ValueError, AttributeError, KeyError, TypeError):  # no manifest of ours: nothing of it is ours to remove
        return set()
    return {str(name) for name in names if name.parts and not name.is_absolute() and ".." not in name.parts}


class _Hub:
    """A model repository of a Hugging Face hub: one commit, which removes what the release does not hold."""

    def __init__(self, place: str) -> None:
        with _needing("hub"):
            from huggingface_hub import HfApi, errors
        name, _, revision = place.partition("@")
        self._name, self._revision = name, revision or "main"
        network = vars(errors)["HTTPError"]  # of the HTTP library that its client uses, which changes with its version
        self._errors = (errors.HfHubHTTPError, network, OSError, ValueError)
        self._api = HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None, token=os.environ.get("HF_TOKEN") or None)
        self._commit = ""

    def manifest(self) -> str:
        from huggingface_hub.errors import EntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError

        with _refused(f"hf://{self._name}", *self._errors):
            try:
                path = self._api.hf_hub_download(self._name, MANIFEST, revision=self._revision)
            except (EntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError):
                return ""
        return digest_of(Path(path).read_bytes())

    def publish(self, bundle: Path, names: Sequence[str]) -> None:
        with _refused(f"hf://{self._name}", *self._errors):
            self._api.create_repo(self._name, exist_ok=True)
            done = self._api.upload_folder(
                repo_id=self._name,
                folder_path=bundle,
                revision=self._revision,
                allow_patterns=list(names),
                delete_patterns="*",
                commit_message="orun release",
            )
        self._commit = done.oid

    def reference(self) -> str:
        return self._commit


class _MLflow:
    """The artifacts of a run in an experiment of MLflow, found again by the digest of the manifest."""

    def __init__(self, experiment: str) -> None:
        with _needing("mlflow"):
            from mlflow import MlflowClient
            from mlflow.exceptions import MlflowException
        self._errors = (MlflowException, OSError)
        self._client = MlflowClient()
        self._experiment = experiment
        self._run = ""

    def manifest(self) -> str:
        return ""  # every release is a run of its own

    def publish(self, bundle: Path, names: Sequence[str]) -> None:
        client = self._client
        with _refused(f"mlflow://{self._experiment}", *self._errors):
            found = client.get_experiment_by_name(self._experiment)
            experiment = found.experiment_id if found else client.create_experiment(self._experiment)
            digest = digest_of((bundle / MANIFEST).read_bytes())
            run = client.create_run(experiment, tags={"orun.manifest": digest}, run_name=f"release {digest[:12]}")
            self._run = run.info.run_id
            for name in names:
                folder = PurePosixPath(name).parent
                client.log_artifact(self._run, str(bundle / name), str(folder) if folder.name else None)
            client.set_terminated(self._run)

    def reference(self) -> str:
        return self._run


class _Registry:
    """An OCI artifact: a layer for each file, titled with its path, and the manifest's digest as an annotation."""

    def __init__(self, place: str) -> None:
        with _needing("oci"):
            from oras.client import OrasClient
            from requests import RequestException
        self._errors = (RequestException, ValueError, OSError)
        address = urlsplit(f"//{place}")
        plain = address.hostname in ("localhost", "127.0.0.1", "::1")
        self._place = place
        self._client = OrasClient(hostname=address.netloc, insecure=plain)
        self._digest = ""

    def manifest(self) -> str:
        with _refused(f"oci://{self._place}", *self._errors):
            container = self._client.get_container(self._place)
            answer = self._client.do_request(
                f"{self._client.prefix}://{container.manifest_url()}", headers={"Accept": IMAGE_MANIFEST}
            )
            if answer.status_code == HTTPStatus.NOT_FOUND:
                return ""
            answer.raise_for_status()
            self._digest = answer.headers.get("Docker-Content-Digest", "")
            return str(answer.json().get("annotations", {}).get(ANNOTATION, "none: no release of orun"))

    def publish(self, bundle: Path, names: Sequence[str]) -> None:
        digest = digest_of((bundle / MANIFEST).read_bytes())
        with _refused(f"oci://{self._place}", *self._errors), TemporaryDirectory() as folder, chdir(bundle):
            titles = Path(folder, "titles.json")  # without it a layer is named like its file, without the folders
            titles.write_text(json.dumps({name: {TITLE: name} for name in names}), "utf-8")
            answer = self._client.push(
                self._place,
                files=[f"{name}:{LAYER}" for name in names],
                annotation_file=str(titles),
                manifest_annotations={ANNOTATION: digest},
                quiet=True,
            )
        self._digest = answer.headers.get("Docker-Content-Digest", "")

    def reference(self) -> str:
        return self._digest
