"""`release/publish` over the network: MLflow, an OCI registry; and up to the network for a hub."""

from __future__ import annotations

import base64
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from orun.errors import UsageError
from orun.stages.release import _destination
from orun.stages.release._manifest import verify_bundle

from .registry import Registry
from .support import make_bundle, publish, receipt


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return make_bundle(tmp_path).output


def test_mlflow_in_files_is_told_as_a_place_that_takes_none(
    tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    with pytest.raises(UsageError) as caught:
        publish(tmp_path, bundle, "mlflow://tiny")
    assert caught.value.problem == "mlflow://tiny did not take the release"
    assert caught.value.why.startswith("The filesystem tracking backend")


# MLflow asks SQLAlchemy for what its next release will not have.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")
def test_mlflow(tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.chdir(tmp_path)
    client = MlflowClient()
    client.create_experiment("tiny", artifact_location=(tmp_path / "artifacts").as_uri())
    reference = receipt(publish(tmp_path, bundle, "mlflow://tiny"))["reference"]
    run = client.get_run(str(reference))
    assert run.info.status == "FINISHED"
    assert verify_bundle(tmp_path / "artifacts" / str(reference) / "artifacts") == []


def test_an_oci_registry(tmp_path: Path, bundle: Path) -> None:
    with Registry() as registry:
        to = f"oci://{registry.address}/models/tiny:1.0"
        run = publish(tmp_path, bundle, to)
        manifest = registry.manifest("models/tiny", "1.0")
        titles = {
            layer["annotations"]["org.opencontainers.image.title"]: layer["digest"] for layer in manifest["layers"]
        }
        assert {name: registry.blob(blob) for name, blob in titles.items()} == {
            path.name: path.read_bytes() for path in bundle.iterdir()
        }
        assert receipt(run)["reference"] == registry.digest("models/tiny", "1.0")
        assert publish(tmp_path, bundle, to).log == f"{to} already holds this release\n"
        with pytest.raises(UsageError) as caught:
            publish(tmp_path, make_bundle(tmp_path, "2.0").output, to)
        assert caught.value.problem == f"{to} holds another release"


def log_in(home: Path, registry: str, login: str) -> None:
    """As `docker login` does."""
    (home / ".docker").mkdir()
    auth = base64.b64encode(login.encode()).decode()
    (home / ".docker/config.json").write_text(json.dumps({"auths": {registry: {"auth": auth}}}))


@pytest.mark.parametrize("tokens", [False, True])
def test_an_oci_registry_that_asks_for_credentials(
    tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch, tokens: bool
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with Registry("me:hunter2", tokens=tokens) as registry:
        to = f"oci://{registry.address}/models/tiny:1.0"
        with pytest.raises(UsageError) as caught:
            publish(tmp_path, bundle, to)
        assert str(caught.value) == (
            f"{registry.address} did not take the release\n"
            "  it requires credentials, and accepts none of those stored for it\n"
            f"  hint: docker login {registry.address}"
        )
        log_in(tmp_path, registry.address, "me:hunter2")
        assert receipt(publish(tmp_path, bundle, to))["reference"] == registry.digest("models/tiny", "1.0")
        assert publish(tmp_path, bundle, to).log == f"{to} already holds this release\n"
        pull, push = "repository:models/tiny:pull", "repository:models/tiny:pull,push"
        assert registry.granted == ([pull, push, pull] if tokens else [])


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A port that nobody listens at, which is where every place is."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        monkeypatch.setenv("HF_ENDPOINT", address)
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        yield listener


PLACES = ("oci://127.0.0.1:{port}/models/tiny:1.0", "hf://owner/tiny", "mlflow://tiny")


@pytest.mark.parametrize("place", PLACES)
def test_a_place_that_refuses_connections(
    tmp_path: Path, bundle: Path, deaf: socket.socket, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(_destination, "PAUSES", (0.0,) * len(_destination.PAUSES))
    port = deaf.getsockname()[1]
    to = place.format(port=port)
    with pytest.raises(UsageError) as caught:
        publish(tmp_path, bundle, to)
    assert str(caught.value) == (
        f"{to} did not take the release\n  127.0.0.1:{port}: Connection refused (tried 5 times)"
    )


@pytest.mark.parametrize(
    ("place", "seconds"),
    [
        (PLACES[0], 0.1),
        (PLACES[1], 0.1),
        pytest.param(PLACES[2], 1.0, marks=pytest.mark.slow),
    ],  # MLflow counts whole ones
)
def test_a_place_that_never_answers(
    tmp_path: Path,
    bundle: Path,
    deaf: socket.socket,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    seconds: float,
) -> None:
    deaf.listen()
    monkeypatch.setattr(_destination, "QUICK", seconds)
    monkeypatch.setattr(_destination, "PAUSES", (0.0,))
    port = deaf.getsockname()[1]
    to = place.format(port=port)
    with pytest.raises(UsageError) as caught:
        publish(tmp_path, bundle, to)
    assert str(caught.value) == f"{to} did not take the release\n  127.0.0.1:{port}: timed out (tried 2 times)"
    deaf.setblocking(False)
    for _ in range(2):
        deaf.accept()[0].close()
    with pytest.raises(BlockingIOError):
        deaf.accept()


class Hub(BaseHTTPRequestHandler):
    """A hub that knows no repository and lets nobody make one."""

    error = "RepoNotFound"

    def log_message(self, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(404, {"X-Error-Code": self.error})

    def do_GET(self) -> None:
        self.do_HEAD()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(401, {"X-Error-Message": "Invalid username or password."})

    def _answer(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


class HubWithRepository(Hub):
    """A hub with a repository that holds files and no release."""

    error = "EntryNotFound"
    files: tuple[str, ...] = (".gitattributes", "README.md", "weights/model.bin")

    def do_GET(self) -> None:
        if urlsplit(self.path).path != "/api/models/owner/tiny/tree/main":
            return super().do_GET()
        listing = [{"type": "file", "path": path, "size": 1, "oid": "0"} for path in self.files]
        return self._answer(200, {}, json.dumps(listing).encode())


class HubWithEmptyRepository(HubWithRepository):
    """A hub with a repository in which is only the file that the hub adds."""

    files = (".gitattributes",)


@pytest.fixture
def refused(
    tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[type[Hub], bool], UsageError]]:
    """Publish to a hub, and return the error."""
    servers = []

    def publish_to(hub: type[Hub], overwrite: bool) -> UsageError:
        servers.append(server := ThreadingHTTPServer(("127.0.0.1", 0), hub))
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}")
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
        with pytest.raises(UsageError) as caught:
            publish(tmp_path, bundle, "hf://owner/tiny", overwrite=overwrite)
        return caught.value

    yield publish_to
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("hub", "overwrite"), [(Hub, False), (HubWithEmptyRepository, False), (HubWithRepository, True)]
)
def test_a_hub_up_to_its_refusal(
    refused: Callable[[type[Hub], bool], UsageError], hub: type[Hub], overwrite: bool
) -> None:
    error = refused(hub, overwrite)
    assert error.problem == "hf://owner/tiny did not take the release"
    assert error.why == f"Client error '401 Unauthorized' for url '{os.environ['HF_ENDPOINT']}/api/repos/create'"


def test_files_of_a_repository_without_a_release_are_not_removed(
    refused: Callable[[type[Hub], bool], UsageError],
) -> None:
    assert str(refused(HubWithRepository, False)) == (
        "hf://owner/tiny holds files that belong to no release\n"
        "  publishing would remove README.md, weights/model.bin\n"
        "  hint: publish to another place, or set `overwrite: true`"
    )
