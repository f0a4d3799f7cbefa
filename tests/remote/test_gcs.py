"""Google Cloud Storage: what the tests of every sort of remote do not hold."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import orun
from orun.environment.env_vars import SHARED_KEY
from orun.errors import RemoteError
from orun.fs.digests import digest_bytes
from orun.remote.transfers import PART, Piece, Transfers
from orun.remote.trust import Keyring
from orun.store.object_storage import PART as UPLOAD_PART
from orun.store.object_storage import Bucket, DeniedError
from tests.project import Project, built
from tests.remote.conftest import NO_GCS
from tests.remote.gcs import Door
from tests.remote.support import contents, machine, named, notices, traffic, write

pytestmark = NO_GCS
KEY = "ab" * 32


def test_large_objects_go_and_come_in_parts(tmp_path: Path, gs: str, door: Door) -> None:
    data = bytes(range(251)) * (PART // 251) * 2 + bytes(600)
    file = tmp_path / "large"
    file.write_bytes(data)
    with ThreadPoolExecutor(8) as pool:
        transfers = Transfers(Bucket(gs), Keyring(), pool)
        large = Piece(digest_bytes(data), len(data), str(file))
        record = json.dumps({"tree": "tree", "implicit_deps": {}}).encode()
        assert transfers.push(KEY, record, [large]).sent == len(data)
        parts = [request for request in door.requests if request.startswith("PUT") and large.digest[2:] in request]
        assert len(parts) == -(-len(data) // UPLOAD_PART)
        assert door.uploads == {}
        door.requests.clear()
        answer = transfers.fetch([Piece(large.digest, large.size, str(tmp_path / "arrived"))])
    assert answer.problems == ()
    assert (tmp_path / "arrived").read_bytes() == data
    assert sum(request.startswith("GET") and large.digest[2:] in request for request in door.requests) == 3


def test_a_server_that_is_down_is_tried_again_and_said_once(
    tmp_path: Path, first: Project, gs: str, door: Door
) -> None:
    door.lives = 0
    result = first.run(remote=gs)
    assert (result.exit_code, built(result)) == (0, ["make", "upper"])
    (notice,) = notices(first)
    assert notice.startswith(f"the remote {gs} cannot be reached; the run goes on without it: Generic GCS error: ")
    assert "after 4 retries" in notice
    assert "password" not in notice
    assert len(door.requests) == 5  # none for the second stage, none for pushes
    with pytest.raises(RemoteError, match="cannot be reached"):
        machine(tmp_path, "other").run(remote=orun.Remote(gs, required=True))
    door.lives = None
    door.failures, door.status = 2, 503
    assert built(first.run(remote=gs)) == []
    assert (notices(first), traffic(first)) == ([], "2 pushed")


def test_a_bucket_that_is_not_there_is_said(tmp_path: Path, gs: str) -> None:
    project, gone = machine(tmp_path, "one"), gs.replace("gs://", "gs://no-")
    assert built(project.run(remote=gone)) == ["make", "upper"]
    (notice,) = notices(project)
    assert notice == (
        f"the remote {gone} cannot be reached; the run goes on without it: "
        "there is no bucket or folder of that name to write to"
    )


@pytest.mark.parametrize("status", [401, 403])
def test_who_is_not_let_in_is_told_so(gs: str, door: Door, status: int) -> None:
    place = Bucket(gs)
    door.failures, door.status = 1, status
    with pytest.raises(DeniedError, match=str(status)):
        place.read("record", 10)
    assert place.put_if_absent("record", b"first") is True
    assert place.put_if_absent("record", b"second") is False
    assert place.read("record", 10) == b"first"


def test_a_record_that_was_changed_after_it_was_signed_is_refused(
    tmp_path: Path, gs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SHARED_KEY, "the shared key of CI")
    machine(tmp_path, "one").run(remote=gs)
    assert built(machine(tmp_path, "other").run(remote=gs)) == []
    changed = named(gs, "actions/")
    for name in changed:
        write(gs, name, contents(gs)[name].replace(b'"seconds":', b'"seconds":1'))
    third = machine(tmp_path, "third")
    assert built(third.run(remote=gs)) == ["make", "upper"]
    why = "its signature is not by a key that is trusted here"
    assert sorted(text.partition("remote: ")[2] for text in notices(third)) == [f"{name}: {why}" for name in changed]
