"""Operations on a real S3 server."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from threading import Event
from time import sleep

import pytest

from orun.fs.digests import digest_bytes
from orun.fs.machine_locks import build_machine_lock
from orun.remote.envelope import RefusedError, sign
from orun.remote.names import SLOTS, UNKNOWN, name_object, name_record
from orun.remote.transfers import LOG_LIMIT, PART, RECORD_LIMIT, Fetched, Piece, Transfers
from orun.remote.trust import Keyring
from orun.store import Entry, object_storage
from orun.store.checksummed_json import encode_canonical
from orun.store.object_storage import PART as UPLOAD_PART
from orun.store.object_storage import Bucket, DeniedError, UnreachableError
from orun.store.trees import encode
from tests.remote.relay import Relay
from tests.remote.support import contents, named, remove, write

KEY = "ab" * 32


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def piece(folder: Path, data: bytes, name: str = "") -> Piece:
    digest = digest_bytes(data)
    path = folder / (name or digest)
    path.write_bytes(data)
    return Piece(digest, len(data), str(path))


def record(tree: str, digest: str = "") -> bytes:
    return encode_canonical({"tree": tree, "implicit_deps": {"files": {"x": digest}}})


def artifact(folder: Path, text: str) -> tuple[str, list[Piece]]:
    """A tree of one file, and the pieces to push."""
    file = piece(folder, text.encode())
    tree = piece(folder, encode((Entry("text", file.size, file.digest),)))
    return tree.digest, [file, tree]


def test_of_many_writers_the_first_wins(tmp_path: Path, remote: str, pool: ThreadPoolExecutor) -> None:
    """Eight at once, each with a result of its own: one of them counts, for all."""
    artifacts = [artifact(tmp_path, f"result {number}") for number in range(8)]

    def push(tree: str, pieces: list[Piece]) -> str:
        return Transfers(Bucket(remote), Keyring(), pool).push(KEY, record(tree), pieces).tree

    with ThreadPoolExecutor(8) as racing:
        first = set(racing.map(push, *zip(*artifacts, strict=True)))
    assert len(first) == 1
    assert named(remote, "actions/") == [name_record(KEY, 0)]
    assert json.loads(contents(remote)[name_record(KEY, 0)].splitlines()[1])["tree"] == first.pop()


def test_a_first_result_that_is_gone_does_not_win(tmp_path: Path, folder: str, pool: ThreadPoolExecutor) -> None:
    first, other = artifact(tmp_path, "one"), artifact(tmp_path, "other")
    transfers = Transfers(Bucket(folder), Keyring(), pool)
    transfers.push(KEY, record(first[0]), first[1])
    assert transfers.push(KEY, record(other[0]), other[1]).tree == first[0]
    remove(folder, name_object(first[1][0].digest))
    assert Transfers(Bucket(folder), Keyring(), pool).push(KEY, record(other[0]), other[1]).tree == other[0]
    assert named(folder, "actions/") == [name_record(KEY, 0), name_record(KEY, 1)]


def test_results_that_read_something_else_stand_side_by_side(folder: str, pool: ThreadPoolExecutor) -> None:
    transfers = Transfers(Bucket(folder), Keyring(), pool)
    trees = [transfers.push(KEY, record(f"tree {number % 3}", str(number % 3)), []).tree for number in range(5)]
    assert trees == ["tree 0", "tree 1", "tree 2", "tree 0", "tree 1"]
    records_read = transfers.read_records(KEY, 0, 1)
    assert [json.loads(data)["tree"] for data in records_read.accepted] == ["tree 0"]
    assert records_read.more
    rest = transfers.read_records(KEY, 1, 3)
    assert [json.loads(data)["tree"] for data in rest.accepted] == ["tree 1", "tree 2"]
    assert not rest.more


def test_a_key_takes_so_many_records_and_no_more(folder: str, pool: ThreadPoolExecutor) -> None:
    transfers = Transfers(Bucket(folder), Keyring(), pool)
    for number in range(SLOTS):
        write(folder, name_record(KEY, number), sign(record("tree", str(number)), Keyring()))
    with pytest.raises(RefusedError) as caught:
        transfers.push(KEY, record("tree", "one more"), [])
    assert str(caught.value) == f"key {KEY} has 64 records there, and takes no more"
    assert transfers.read_records(KEY, 0, SLOTS).more is False


@pytest.mark.slow
def test_large_objects_go_and_come_in_parts(tmp_path: Path, s3: str, relay: Relay, pool: ThreadPoolExecutor) -> None:
    data = bytes(range(251)) * (PART // 251) * 2 + bytes(600)
    transfers = Transfers(Bucket(s3), Keyring(), pool)
    large, small = piece(tmp_path, data), piece(tmp_path, b"small")
    pushed = transfers.push(KEY, record("tree"), [large, small])
    assert (pushed.tree, pushed.sent) == ("tree", len(data) + 5)
    parts = [request for request in relay.requests if request.startswith("PUT") and large.digest[2:] in request]
    assert len(parts) == -(-len(data) // UPLOAD_PART)
    relay.requests.clear()
    wanted = [Piece(large.digest, large.size, str(tmp_path / "a")), Piece(small.digest, UNKNOWN, str(tmp_path / "b"))]
    answer = transfers.fetch(wanted)
    assert answer.problems == ()
    assert [arrived and arrived[0] for arrived in answer.arrived] == [len(data), 5]
    assert (tmp_path / "a").read_bytes() == data
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o444
    assert sum(request.startswith("GET") and large.digest[2:] in request for request in relay.requests) == 3


def test_what_has_arrived_is_on_the_disk(
    tmp_path: Path, folder: str, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    transfers, sent, flushed, fsync = Transfers(Bucket(folder), Keyring(), pool), piece(tmp_path, b"good"), [], os.fsync
    transfers.push(KEY, record("tree"), [sent])

    def note(descriptor: int) -> None:
        flushed.append((os.fstat(descriptor).st_ino, os.fstat(descriptor).st_size))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    arrived = tmp_path / "arrived"
    assert transfers.fetch([Piece(sent.digest, 4, str(arrived))]).problems == ()
    assert flushed == [(arrived.stat().st_ino, 4)]


def test_what_is_there_is_not_sent_again(tmp_path: Path, s3: str, relay: Relay, pool: ThreadPoolExecutor) -> None:
    pieces = [piece(tmp_path, b"one"), piece(tmp_path, b"two")]
    Transfers(Bucket(s3), Keyring(), pool).push(KEY, record("tree"), pieces[:1])
    relay.requests.clear()
    pushed = Transfers(Bucket(s3), Keyring(), pool).push("cd" * 32, record("other"), pieces)
    assert (pushed.tree, pushed.sent) == ("other", 3)
    puts = [request.rpartition("/some/path/")[2] for request in relay.requests if request.startswith("PUT")]
    assert puts == [name_object(pieces[1].digest), name_record("cd" * 32, 0)]  # the record comes last


def test_what_was_damaged_here_is_not_sent(tmp_path: Path, folder: str, pool: ThreadPoolExecutor) -> None:
    good = piece(tmp_path, b"good")
    Path(good.path).write_bytes(b"evil")
    with pytest.raises(RefusedError) as caught:
        Transfers(Bucket(folder), Keyring(), pool).push(KEY, record("tree"), [good])
    assert str(caught.value) == f"object {good.digest} was damaged here"
    assert contents(folder) == {}


def test_nothing_is_read_that_is_larger_than_it_may_be(tmp_path: Path, folder: str, pool: ThreadPoolExecutor) -> None:
    transfers = Transfers(Bucket(folder), Keyring(), pool)
    write(folder, name_record(KEY, 0), bytes(RECORD_LIMIT + 1))
    problem = f"{name_record(KEY, 0)}: it has {RECORD_LIMIT + 1} bytes, and at most {RECORD_LIMIT} are allowed"
    assert transfers.read_records(KEY, 0, 1).refused == (problem,)
    digest = digest_bytes(b"small")
    write(folder, name_object(digest), b"small and more")
    answer = transfers.fetch([Piece(digest, 5, str(tmp_path / "file"))])
    assert answer.problems == (f"{name_object(digest)}: it has 14 bytes instead of 5",)
    assert (tmp_path / "file").stat().st_size == 0


def test_a_log_that_is_larger_than_it_may_be_is_not_fetched(
    tmp_path: Path, folder: str, pool: ThreadPoolExecutor
) -> None:
    transfers = Transfers(Bucket(folder), Keyring(), pool)
    write(folder, name_object("1" * 64), b"log")
    os.truncate(tmp_path / "bucket" / name_object("1" * 64), LOG_LIMIT + 1)  # most of it a hole
    assert transfers.fetch([Piece("1" * 64, UNKNOWN, str(tmp_path / "log"))]) == Fetched((None,), ())
    assert not (tmp_path / "log").exists()


def test_an_object_that_nothing_rests_on_may_be_missing(tmp_path: Path, folder: str, pool: ThreadPoolExecutor) -> None:
    transfers = Transfers(Bucket(folder), Keyring(), pool)
    assert transfers.fetch([Piece("1" * 64, UNKNOWN, str(tmp_path / "file"))]) == Fetched((None,), ())
    missing = transfers.fetch([Piece("1" * 64, 5, str(tmp_path / "other"))])
    assert missing == Fetched((None,), (f"{name_object('1' * 64)} is missing",))


def test_refusals_of_a_server_are_told_apart(s3: str, relay: Relay) -> None:
    place = Bucket(s3)
    assert place.read("nothing", 10) is None
    assert place.read_size("nothing") is None
    relay.refuse = "GET"
    with pytest.raises(DeniedError):
        place.read("nothing", 10)
    relay.refuse = ""
    relay.failures, relay.status = 5, 503
    with pytest.raises(UnreachableError, match="503 Service Unavailable"):
        place.read("nothing", 10)
    with pytest.raises(UnreachableError, match=r"^there is no bucket or folder of that name to write to$"):
        Bucket("s3://no-such-bucket").put_if_absent("a", b"")


def test_a_bucket_without_credentials_names_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the address of the machine's role, which is asked last."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(UnreachableError) as caught:
        Bucket("s3://bucket").read("record", 10)
    assert str(caught.value) == (
        "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a role"
    )


def test_an_address_that_the_user_names_for_google_may_be_plain(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_BASE_URL", relay.url)
    monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    relay.failures, relay.status = 1, 403
    with pytest.raises(DeniedError, match="403 Forbidden"):
        Bucket("gs://bucket").read("record", 10)
    assert relay.requests == ["GET /bucket/record"]


def test_nothing_is_transferred_while_a_stage_measures(
    tmp_path: Path, s3: str, relay: Relay, pool: ThreadPoolExecutor
) -> None:
    transfers = Transfers(Bucket(s3), Keyring(), pool)
    good = piece(tmp_path, b"good")
    with build_machine_lock(exclusive=True) as measuring, ThreadPoolExecutor(1) as background:
        assert measuring.try_acquire()
        pushing = background.submit(transfers.push, KEY, record("tree"), [good])
        while not relay.requests:
            sleep(0.01)
        sleep(0.2)
        assert [request.partition(" ")[0] for request in relay.requests] == ["HEAD"]
        measuring.release()
        assert pushing.result(60).sent == 4
    assert [request.partition(" ")[0] for request in relay.requests] == ["HEAD", "PUT", "PUT"]


def test_a_server_that_never_answers_is_given_up(s3: str, relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_storage, "QUICK", timedelta(milliseconds=300))
    relay.stalled = Event()
    with pytest.raises(UnreachableError, match="Error performing PUT"):
        Bucket(s3).put_if_absent("a", b"")
    relay.stalled.set()
