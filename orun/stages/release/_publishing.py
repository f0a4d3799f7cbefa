"""Destinations of a release: a folder or bucket, a Hugging Face hub, MLflow, an OCI registry."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from orun.environment.env_vars import set_variable
from orun.errors import UsageError
from orun.stages.release import _destination
from orun.stages.release._bucket import Bucket
from orun.stages.release._destination import Publisher, parse_digest, report_refusal, require_package, retry
from orun.stages.release._manifest import MANIFEST

CLIENTS = {"hf": "huggingface-hub", "mlflow": "mlflow-skinny|mlflow", "oci": "oras"}
BUCKETS = ("file", "s3", "s3a", "gs", "az", "azure", "abfs", "abfss")


def find_package(to: str) -> str:
    """Return the distribution that a destination needs, alternatives joined by `|`; empty if it needs none."""
    scheme, separator, _ = to.partition("://")
    if not separator or scheme == "file":
        return ""
    return "obstore" if scheme in BUCKETS else CLIENTS.get(scheme, "")


def build_publisher(to: str, root: Path) -> Publisher:
    """Return the publisher for the parameter `to`.

    Raises:
        UsageError: if the URL has an unknown scheme or holds credentials.
        MissingPackages: if the destination needs a package that is not installed.
    """
    if not to.strip():
        raise UsageError("`to` is empty", why="the files of a release need a folder of their own")
    scheme, separator, rest = to.partition("://")
    if not separator:
        return Bucket((root / to).resolve().as_uri())
    _require_no_secrets(to)
    if scheme in BUCKETS:
        return Bucket(to)
    if scheme == "hf":
        return _Hub(rest)
    if scheme == "mlflow":
        return _MLflow(rest)
    if scheme == "oci":
        with require_package("oras"):
            from orun.stages.release._registry import Registry
        return Registry(rest)
    expected = "a folder, file://, s3://, gs://, az://, hf://, mlflow:// or oci://"
    raise UsageError(f"a release cannot be published to {scheme}://", why=f"expected {expected}")


def _require_no_secrets(to: str) -> None:
    """Refuse a user name, password or token in a URL without showing it: receipts and logs would hold it."""
    try:
        address = urlsplit(to)
    except ValueError as error:  # brackets that do not match
        raise UsageError("`to` is not a valid URL", why=str(error)) from error
    if address.username is not None or address.query:
        raise UsageError(
            f"`to` must not hold credentials or a query: {address.scheme}://...",
            why="the parameters of a stage are stored with its result",
            hint="set credentials in the environment; `orun stages release/publish` lists the variables",
        )


class _Hub(Publisher):
    """Model repository of a Hugging Face hub. A release is one commit, which removes all other files."""

    def __init__(self, address: str) -> None:
        with require_package("huggingface-hub"):
            from huggingface_hub import HfApi, errors
        name, _, revision = address.partition("@")
        self._name, self._revision = name, revision or "main"
        network = vars(errors)["HTTPError"]  # of the HTTP library, which is another one in other versions of the hub's
        self._errors = (errors.HfHubHTTPError, network, OSError, ValueError)
        self._network, self._answers = (network,), (errors.HfHubHTTPError,)
        self._api = HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None, token=os.environ.get("HF_TOKEN") or None)
        self._commit = ""

    def read_manifest_digest(self) -> str:
        from huggingface_hub.errors import EntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError

        with report_refusal(f"hf://{self._name}", *self._errors):
            try:
                host = _parse_host(self._api.endpoint)
                return parse_digest(retry(host, self._read_manifest, self._network, self._answers))
            except (EntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError):
                return ""

    def list_other_files(self) -> list[str]:
        from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

        list_files = partial(self._api.list_repo_files, self._name, revision=self._revision)
        with report_refusal(f"hf://{self._name}", *self._errors):
            try:
                names = retry(_parse_host(self._api.endpoint), list_files, self._network, self._answers)
            except (RepositoryNotFoundError, RevisionNotFoundError):
                return []
        return [name for name in names if name != ".gitattributes"]  # which the hub adds, and keeps

    def _read_manifest(self) -> bytes:
        """Return the manifest on the hub; its client would return one from its cache."""
        from huggingface_hub import get_session, hf_hub_url, hf_raise_for_status
        from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]  # which it imports when used

        answer = get_session().get(
            hf_hub_url(self._name, MANIFEST, revision=self._revision, endpoint=self._api.endpoint),
            headers=build_hf_headers(token=self._api.token),
            follow_redirects=True,
            timeout=_destination.QUICK,
        )
        hf_raise_for_status(answer)
        return bytes(answer.content)

    def publish(self, bundle: Path, names: Sequence[str]) -> None:
        with report_refusal(f"hf://{self._name}", *self._errors):
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

    def read_reference(self) -> str:
        return self._commit


class _MLflow(Publisher):
    """Artifacts of a run in an experiment of MLflow. A tag with the digest of the manifest marks a complete release."""

    def __init__(self, experiment: str) -> None:
        with require_package("mlflow-skinny"):
            from mlflow import MlflowClient
            from mlflow.exceptions import MlflowException
        self._errors = (MlflowException, OSError)
        with report_refusal(f"mlflow://{experiment}", *self._errors):  # MLflow refuses folders of its old file store
            self._client = MlflowClient()
        self._experiment = experiment
        self._run = ""

    def read_manifest_digest(self) -> str:
        return ""  # every release is a run of its own

    def publish(self, bundle: Path, names: Sequence[str]) -> None:
        client = self._client
        with report_refusal(f"mlflow://{self._experiment}", *self._errors):
            existing = self._find()
            experiment = existing.experiment_id if existing else client.create_experiment(self._experiment)
            digest = parse_digest((bundle / MANIFEST).read_bytes())
            self._run = client.create_run(experiment, run_name=f"release {digest[:12]}").info.run_id
            try:
                for name in names:
                    folder = PurePosixPath(name).parent
                    client.log_artifact(self._run, str(bundle / name), str(folder) if folder.name else None)
                client.set_tag(self._run, "orun.manifest", digest)  # last, as it marks a complete release
            except self._errors:
                with suppress(*self._errors):
                    client.set_terminated(self._run, "FAILED")
                raise
            client.set_terminated(self._run)

    def _find(self) -> Any:
        """Return the experiment, if any; MLflow itself would wait minutes for a server that does not answer."""
        from mlflow.exceptions import MlflowException, RestException

        limits = {"MLFLOW_HTTP_REQUEST_TIMEOUT": f"{_destination.QUICK:.0f}", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
        find = partial(self._client.get_experiment_by_name, self._experiment)
        with ExitStack() as stack:
            for name, value in limits.items():
                stack.enter_context(set_variable(name, os.environ.get(name, value)))
            return retry(_parse_host(self._client.tracking_uri), find, (MlflowException,), (RestException,))

    def read_reference(self) -> str:
        return self._run


def _parse_host(url: str) -> str:
    """Return the host and port of a URL, without credentials; the whole URL if it names no host."""
    return urlsplit(url).netloc.rpartition("@")[2] or url
