"""Remotes of each sort."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from orun.environment.env_vars import SHARED_KEY, SIGNING_KEY
from orun.store import object_storage
from tests.project import Project
from tests.remote import azurite, gcs
from tests.remote.emulator import listening_once
from tests.remote.relay import Relay
from tests.remote.s3 import command, new_bucket, variables
from tests.remote.support import machine


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let requests that fail be tried again at once, as often as ever."""
    delays = {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=5), "base": 2.0}
    monkeypatch.setattr(object_storage, "RETRIES", {**object_storage.RETRIES, "backoff": delays})


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the variables of whoever runs the tests out of them."""
    for name in ("ORUN_REMOTE", "ORUN_REMOTE_MODE", SHARED_KEY, SIGNING_KEY):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def first(tmp_path: Path) -> Project:
    """The project on a machine that has built nothing."""
    return machine(tmp_path, "one")


@pytest.fixture
def other(tmp_path: Path) -> Project:
    """The same project on another machine."""
    return machine(tmp_path, "other")


@pytest.fixture(scope="session")
def s3_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of an S3 server in a process of its own."""
    with listening_once(tmp_path_factory, "s3", command) as port:
        yield port


@pytest.fixture
def relay(s3_port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Relay]:
    """A server before the S3 server, whose address is in the environment with credentials."""
    relay = Relay(s3_port)
    for name, value in variables(relay.url).items():
        monkeypatch.setenv(name, value)
    yield relay
    relay.close()


@pytest.fixture
def s3(relay: Relay) -> str:
    """The URL of a new bucket."""
    return new_bucket(relay.port)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """The URL of a folder."""
    return f"file://{tmp_path / 'bucket'}"


@pytest.fixture(scope="session")
def azurite_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of an emulator of Azure Blob Storage in a process of its own."""
    serve = partial(azurite.command, tmp_path_factory.mktemp("azurite"))
    with listening_once(tmp_path_factory, "azurite", serve) as port:
        yield port


@pytest.fixture
def az(azurite_port: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a new container; where it is and who may write is in the environment."""
    monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
    monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", f"http://127.0.0.1:{azurite_port}")
    container = f"container-{uuid4().hex}"
    azurite.make_container(azurite_port, container)
    return f"az://{container}/some/path"


@pytest.fixture(scope="session")
def gcs_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of an emulator of Google Cloud Storage in a process of its own."""
    with listening_once(tmp_path_factory, "gcs", gcs.command) as port:
        yield port


@pytest.fixture
def door(gcs_port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[gcs.Door]:
    """A server before that emulator, whose address is in the environment with credentials."""
    door = gcs.Door(gcs_port)
    monkeypatch.setenv("GOOGLE_BASE_URL", door.url)
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "password")
    yield door
    door.close()


@pytest.fixture
def gs(door: gcs.Door) -> str:
    """The URL of a new bucket of Google Cloud Storage."""
    bucket = f"bucket-{uuid4().hex}"
    gcs.make_bucket(door.port, bucket)
    return f"gs://{bucket}/some/path"


NO_GCS = pytest.mark.skipif(gcs.PROGRAM is None, reason="there is no fake-gcs-server")
GS = pytest.param("gs", marks=NO_GCS)
AZ = pytest.param("az", marks=pytest.mark.skipif(azurite.PROGRAM is None, reason="there is no azurite-blob"))


@pytest.fixture(params=["folder", "s3", GS, AZ])
def remote(request: pytest.FixtureRequest) -> str:
    """A remote that can be written to, of each sort."""
    url: str = request.getfixturevalue(request.param)
    return url
