"""Two machines share a remote: what one has built, the other does not run."""

from __future__ import annotations

import functools
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import orun
from orun.environment import device
from tests.project import built, outcomes
from tests.remote.relay import Relay
from tests.remote.support import contents, holding, machine, named, notices, remove, traffic
from tests.store.support import flip

CLASSES = """
name: text
stages:
  make: {uses: ./stages.py:make}
  measured: {uses: ./measured.py:measured, needs: make}
  engine: {uses: ./measured.py:engine, needs: make}
"""


def test_the_second_machine_runs_nothing(tmp_path: Path, remote: str) -> None:
    one, other = machine(tmp_path, "one"), machine(tmp_path, "other")
    assert built(one.run(remote=remote)) == ["make", "upper"]
    assert traffic(one) == "2 pushed"
    result = other.run(remote=remote)
    assert outcomes(result) == {"make": "cached", "upper": "cached"}
    assert result["upper"].reasons == ("fetched from the remote", "up to date")
    assert traffic(other) == "2 fetched"
    assert other.text("upper") == one.text("upper") == "A B!"
    assert notices(other) == []


def test_a_run_with_nothing_to_do_asks_nothing(tmp_path: Path, s3: str, relay: Relay) -> None:
    one, other = machine(tmp_path, "one"), machine(tmp_path, "other")
    one.run(remote=s3)
    other.run(remote=s3)
    relay.requests.clear()
    for project in (one, other):
        assert built(project.run(remote=s3)) == []
        project.edit("pipeline.yaml", "name: text", "name: text # changed")  # the long way: planned anew
        assert built(project.run(remote=s3)) == []
    assert relay.requests == []


def test_a_remote_named_for_the_first_time_gets_what_is_there(tmp_path: Path, folder: str) -> None:
    one, other = machine(tmp_path, "one"), machine(tmp_path, "other")
    one.run()
    assert built(one.run(remote=folder)) == []
    assert traffic(one) == "2 pushed"
    assert built(other.run(remote=folder)) == []
    one.run(remote=folder)
    assert traffic(one) == ""


def test_only_what_is_missing_here_is_asked_for(tmp_path: Path, s3: str, relay: Relay) -> None:
    one, other = machine(tmp_path, "one"), machine(tmp_path, "other")
    one.run(remote=s3)
    one.edit("pipeline.yaml", "needs: make}", "needs: make, with: {mark: '?'}}")
    one.run(remote=s3)
    other.run(to=["make"])
    other.edit("pipeline.yaml", "needs: make}", "needs: make, with: {mark: '?'}}")
    relay.requests.clear()
    assert built(other.run(remote=orun.Remote(s3, "read"))) == []
    assert other.text("upper") == "A B?"
    asked = [request for request in relay.requests if "/actions/" in request]
    assert len(asked) == 1


def test_a_result_that_read_something_else_is_another_one(tmp_path: Path, remote: str) -> None:
    one, two, three = (machine(tmp_path, name) for name in ("one", "two", "three"))
    one.run(remote=remote)
    for project in (two, three):
        project.edit("deep.py", "text.split()", "text.split()[::-1]")
    assert built(two.run(remote=remote)) == ["make", "upper"]  # both import it
    assert built(three.run(remote=remote)) == []
    assert three.text("upper") == two.text("upper") == "B A!"
    assert one.text("upper") == "A B!"
    assert len(named(remote, "actions/")) == 4


def test_a_measurement_stays_where_it_was_taken(tmp_path: Path, folder: str) -> None:
    one, other = machine(tmp_path, "one", CLASSES), machine(tmp_path, "other", CLASSES)
    one.run(remote=folder)
    assert traffic(one) == "2 pushed"
    assert b"1 ms" not in contents(folder).values()
    assert built(other.run(remote=folder)) == ["measured"]


def test_a_result_for_a_device_is_not_taken_on_another(
    tmp_path: Path, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = machine(tmp_path, "one", CLASSES), machine(tmp_path, "other", CLASSES)
    one.run(remote=folder)
    monkeypatch.setattr(device, "cpu", lambda: {"cpu": "another", "cpu flags": "none", "cores": "1"})
    assert built(other.run(remote=folder)) == ["measured", "engine"]
    assert traffic(other) == "1 fetched, 1 pushed"


def test_what_reads_only_writes_nothing(tmp_path: Path, remote: str) -> None:
    one, other = machine(tmp_path, "one"), machine(tmp_path, "other")
    one.run(remote=remote)
    before = contents(remote)
    other.edit("pipeline.yaml", "a b", "c d")
    assert built(other.run(remote=orun.Remote(remote, mode="read"))) == ["make", "upper"]
    assert contents(remote) == before
    assert notices(other) == []


def test_a_web_server_is_read(tmp_path: Path, folder: str) -> None:
    one, other = machine(tmp_path, "one"), machine(tmp_path, "other")
    one.run(remote=folder)

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(tmp_path / "bucket")))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        other.edit("pipeline.yaml", "needs: make}", "needs: make, with: {mark: '?'}}")
        result = other.run(remote=f"http://127.0.0.1:{server.server_address[1]}")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert built(result) == ["upper"]
    assert notices(other) == []
    assert traffic(other) == "1 fetched"


@pytest.mark.parametrize("also_there", [True, False])
def test_a_damaged_object_is_refetched(tmp_path: Path, folder: str, also_there: bool) -> None:
    one = machine(tmp_path, "one")
    one.run(remote=folder)
    name = holding(folder, b"A B!")
    path = one.store / name
    flip(path)
    if not also_there:
        remove(folder, name)
    result = one.run(remote=folder)
    assert one.text("upper") == "A B!"
    digest = name.removeprefix("objects/").replace("/", "")
    damaged, *rest = [text for text in notices(one) if not text.startswith("out/")]
    assert damaged.startswith(f"object {digest} was damaged; it was put away as ")
    if also_there:
        assert built(result) == []
        assert rest == ["upper: what was damaged or missing was refetched from the remote"]
    else:
        assert built(result) == ["upper"]
        assert rest[0] == f"upper: refused from the remote: {name} is missing"
        assert holding(folder, b"A B!") == name


def test_a_stage_that_may_not_run_may_be_fetched(tmp_path: Path, folder: str) -> None:
    one, other = machine(tmp_path, "one"), machine(tmp_path, "other")
    one.run(remote=folder, only=["make"])
    assert built(other.run(remote=folder, only=["upper"])) == ["upper"]


def test_a_forced_stage_is_not_fetched(tmp_path: Path, folder: str) -> None:
    one, other = machine(tmp_path, "one"), machine(tmp_path, "other")
    one.run(remote=folder)
    assert built(other.run(remote=folder, force=["upper"])) == ["upper"]
