"""Two machines share a remote: what one has built, the other does not run."""

from __future__ import annotations

import functools
import json
import os
import socket
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import onnx
import pytest

import orun
from orun.cli.main import main
from orun.core.events import Event, StageFinished, StageWaiting
from orun.core.serialization import encode
from orun.environment import device
from orun.errors import StoreError
from orun.gates.baseline_file import Accepted, Baseline
from orun.planning.plan import Step
from orun.planning.planner import Planner
from orun.remote import download
from orun.remote.download import Downloads
from orun.remote.envelope import sign
from orun.remote.names import name_object, name_record
from orun.remote.settings import Settings
from orun.remote.sync import Sync
from orun.remote.trust import Keyring
from orun.store import Store
from orun.store.checksummed_json import encode_canonical
from orun.text.units import show
from tests.facts import describe_reasons
from tests.project import Project, built, outcomes
from tests.remote.relay import Relay
from tests.remote.support import contents, holding, machine, named, notices, remove, traffic, write
from tests.store.support import flip

CLASSES = """
name: text
stages:
  make: {uses: ./stages.py:make}
  measured: {uses: ./measured.py:measured, needs: make}
  engine: {uses: ./measured.py:engine, needs: make}
"""

GATED = """
name: text
stages:
  model: {uses: convert/onnx, with: {path: model.onnx}}
  latency: {uses: measure/latency, needs: model, gate: {p50: {max_regression: 5%}}}
"""
ACCEPTABLE = """
name: text
stages:
  make: {uses: ./stages.py:make}
  words: {uses: ./measured.py:words, needs: make, gate: {words: {max_regression: 10%}}}
"""


WAITING = """
import socket

from orun import stage


@stage(inputs={}, output="files")
def wait(context, *, port: int):
    if port:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as caller:
            caller.recv(1)
    (context.output / "text").write_text(str(port))
"""
WIDE = """
name: text
stages:
  waits: {uses: ./waiting.py:wait, with: {port: PORT}}
  quick: {uses: ./waiting.py:wait, with: {port: 0}}
  stored: {uses: ./waiting.py:wait, with: {port: 0}}
"""


RESOLVING = """
import ctypes

from orun import stage


@stage(inputs={"text": "files"}, output="files")
def resolve(context):
    resolved = ctypes.create_string_buffer(4096)
    assert ctypes.CDLL(None).realpath(str(context.inputs["text"] / "text").encode(), resolved)
    (context.output / "text").write_text("resolved")
"""
RESOLVED = """
name: text
stages:
  make: {uses: ./stages.py:make}
  resolve: {uses: ./resolving.py:resolve, needs: make}
"""


def test_results_are_looked_for_while_other_stages_keep_the_cores_busy(
    tmp_path: Path, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if more stages are ready than are looked for at a time."""
    monkeypatch.setattr(download, "MOST", 1)
    with socket.create_server(("127.0.0.1", 0)) as waiting:
        pipeline = WIDE.replace("PORT", str(waiting.getsockname()[1]))
        first, second = (machine(tmp_path, name, pipeline) for name in ("first", "second"))
        for project in (first, second):
            project.write("waiting.py", WAITING)
        first.run(remote=folder, only=["stored"])
        ended: list[str] = []

        def note(event: Event) -> None:
            if isinstance(event, StageFinished):
                ended.append(event.result.stage)
                if event.result.stage == "stored":
                    waiting.accept()[0].close()

        orun.run(second.folder / "pipeline.yaml", store=second.store, on_event=note, remote=folder, jobs=1)
    assert ended.index("stored") < ended.index("waits")


def test_the_second_machine_runs_nothing(first: Project, other: Project, remote: str) -> None:
    assert built(first.run(remote=remote)) == ["make", "upper"]
    assert traffic(first) == "2 pushed"
    result = other.run(remote=remote)
    assert outcomes(result) == {"make": "cached", "upper": "cached"}
    assert describe_reasons(result["upper"].reasons) == ("fetched from the remote", "up to date")
    assert traffic(other) == "2 fetched"
    assert other.text("upper") == first.text("upper") == "A B!"
    assert notices(other) == []
    assert describe_reasons(other.run(remote=remote)["upper"].reasons) == ("up to date",)


def test_a_run_with_nothing_to_do_asks_nothing(first: Project, other: Project, s3: str, relay: Relay) -> None:
    first.run(remote=s3)
    other.run(remote=s3)
    relay.requests.clear()
    for project in (first, other):
        assert built(project.run(remote=s3)) == []
        project.edit("pipeline.yaml", "name: text", "name: text # changed")  # the long way: planned anew
        assert built(project.run(remote=s3)) == []
    assert relay.requests == []


@pytest.mark.slow
def test_a_remote_named_for_the_first_time_gets_what_is_there(first: Project, other: Project, folder: str) -> None:
    first.run()
    assert built(first.run(remote=folder)) == []
    assert traffic(first) == "2 pushed"
    assert built(other.run(remote=folder)) == []
    first.run(remote=folder)
    assert traffic(first) == ""


def test_only_what_is_missing_here_is_asked_for(first: Project, other: Project, s3: str, relay: Relay) -> None:
    first.run(remote=s3)
    first.edit("pipeline.yaml", "needs: make}", "needs: make, with: {mark: '?'}}")
    first.run(remote=s3)
    other.run(to=["make"])
    other.edit("pipeline.yaml", "needs: make}", "needs: make, with: {mark: '?'}}")
    relay.requests.clear()
    assert built(other.run(remote=orun.Remote(s3, "read"))) == []
    assert other.text("upper") == "A B?"
    requests = [request for request in relay.requests if "/actions/" in request]
    assert len(requests) == 1


@pytest.mark.slow
def test_what_does_not_fit_is_told_before_it_is_fetched(
    first: Project, other: Project, s3: str, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    first.run(remote=s3)
    relay.requests.clear()
    with monkeypatch.context() as patch:
        patch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=0, f_frsize=4096))
        with pytest.raises(StoreError) as caught:
            other.run(remote=s3)
    problem, why, hint = str(caught.value).splitlines()
    assert problem == "cannot fetch make from the remote: the disk is full"
    assert why.endswith(": No space left on device")
    assert hint == f"  hint: Nothing that was stored is lost. Free some space and run it again: df -h {other.store}"
    objects = [request for request in relay.requests if "/objects/" in request]
    assert len(objects) == 1, "the list of its files, and none of them"
    assert built(other.run(remote=s3)) == []


def test_a_result_that_read_something_else_is_another_one(tmp_path: Path, folder: str) -> None:
    first, two, three = (machine(tmp_path, name) for name in ("one", "two", "three"))
    first.run(remote=folder)
    for project in (two, three):
        project.edit("deep.py", "text.split()", "text.split()[::-1]")
    assert built(two.run(remote=folder)) == ["make", "upper"]  # both import it
    assert built(three.run(remote=folder)) == []
    assert three.text("upper") == two.text("upper") == "B A!"
    assert first.text("upper") == "A B!"
    assert len(named(folder, "actions/")) == 4


@pytest.mark.slow
@pytest.mark.usefixtures("native_reads")
def test_stores_of_different_names_in_the_project_share_results(tmp_path: Path, folder: str) -> None:
    """The native `realpath` of an input looks for a link at each folder above it, the store among them."""
    first, other = (machine(tmp_path, name, RESOLVED) for name in ("one", "other"))
    for project, store in ((first, ".orun"), (other, "artifacts")):
        project.write("resolving.py", RESOLVING)
        project.store = project.folder / store
    assert built(first.run(remote=folder)) == ["make", "resolve"]
    assert (built(other.run(remote=folder)), traffic(other)) == ([], "2 fetched")


def test_a_measurement_stays_where_it_was_taken(tmp_path: Path, folder: str) -> None:
    project, other = machine(tmp_path, "one", CLASSES), machine(tmp_path, "other", CLASSES)
    project.run(remote=folder)
    assert traffic(project) == "2 pushed"
    assert b"1 ms" not in contents(folder).values()
    assert built(other.run(remote=folder)) == ["measured"]


@pytest.mark.slow
def test_a_measurement_that_is_there_all_the_same_is_not_taken(tmp_path: Path, folder: str) -> None:
    project, other = machine(tmp_path, "one", CLASSES), machine(tmp_path, "other", CLASSES)
    key = project.run(remote=folder)["measured"].key
    with Store.open(project.store) as store:
        (measured,) = store.list_actions(key)
        tree = store.read_tree(measured.tree)
        assert tree is not None
        for digest in (*tree.objects, measured.log):
            write(folder, name_object(digest), store.read(digest))
    write(folder, name_record(key, 0), sign(encode_canonical(encode(measured)), Keyring()))
    assert built(other.run(remote=folder)) == ["measured"]


def test_a_result_for_a_device_is_not_taken_on_another(
    tmp_path: Path, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, other = machine(tmp_path, "one", CLASSES), machine(tmp_path, "other", CLASSES)
    project.run(remote=folder)
    monkeypatch.setattr(device, "read_cpu", lambda: {"cpu": "another", "cpu flags": "none", "cores": "1"})
    assert built(other.run(remote=folder)) == ["measured", "engine"]
    assert traffic(other) == "1 fetched, 1 pushed"


def test_what_reads_only_writes_nothing(first: Project, other: Project, folder: str) -> None:
    first.run(remote=folder)
    before = contents(folder)
    other.edit("pipeline.yaml", "a b", "c d")
    assert built(other.run(remote=orun.Remote(folder, mode="read"))) == ["make", "upper"]
    assert contents(folder) == before
    assert notices(other) == []


@pytest.mark.slow
def test_a_web_server_is_read(tmp_path: Path, first: Project, other: Project, folder: str) -> None:
    first.run(remote=folder)

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


def test_what_another_run_has_stored_meanwhile_was_not_damaged(
    tmp_path: Path, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, wants = machine(tmp_path, "one"), Downloads.wants

    def late(downloads: Downloads, step: Step) -> bool:
        monkeypatch.setattr(Downloads, "wants", wants)
        assert built(orun.run(project.folder / "pipeline.yaml", store=project.store)) == ["make", "upper"]
        return wants(downloads, step)

    monkeypatch.setattr(Downloads, "wants", late)
    assert built(project.run(remote=folder)) == []
    assert notices(project) == []
    assert traffic(project) == "2 pushed"


@pytest.mark.parametrize("also_there", [True, False])
def test_a_damaged_object_is_refetched(first: Project, folder: str, also_there: bool) -> None:
    first.run(remote=folder)
    name = holding(folder, b"A B!")
    path = first.store / name
    flip(path)
    if not also_there:
        remove(folder, name)
    result = first.run(remote=folder)
    assert first.text("upper") == "A B!"
    digest = name.removeprefix("objects/").replace("/", "")
    damaged, *rest = [text for text in notices(first) if not text.startswith("out/")]
    assert damaged.startswith(f"object {digest} was damaged; moved to quarantine as ")
    if also_there:
        assert built(result) == []
        assert rest == ["upper: what was damaged or missing was refetched from the remote"]
    else:
        assert built(result) == ["upper"]
        assert rest[0] == f"upper: refused from the remote: {name} is missing"
        assert holding(folder, b"A B!") == name


def test_a_stage_that_may_not_run_may_be_fetched(first: Project, other: Project, folder: str) -> None:
    first.run(remote=folder, only=["make"])
    assert built(other.run(remote=folder, only=["upper"])) == ["upper"]


def test_a_forced_stage_is_not_fetched(first: Project, other: Project, folder: str) -> None:
    first.run(remote=folder)
    assert built(other.run(remote=folder, force=["upper"])) == ["upper"]


def test_the_accepted_model_comes_from_the_remote(tmp_path: Path, folder: str) -> None:
    """A gate compares with a model that this machine has never seen."""
    first, other = machine(tmp_path, "one", GATED), machine(tmp_path, "other", GATED)
    for project, name in ((first, "accepted"), (other, "new")):
        write_model(project.folder / "model.onnx", name)
    accepted = first.run(remote=folder, to=["model"])["model"].tree
    pipeline = orun.load(other.folder / "pipeline.yaml")
    stage = pipeline.stages[1]
    baseline = Baseline("text", {stage.id: Accepted(model=accepted, metrics={}, host={}, date="", who="", run="")})
    with Store.open(other.store) as store:
        planner = Planner(pipeline, store, baseline)
        assert planner.find_missing_model(stage) == accepted
        sync = Sync(Settings(folder, "read"), planner, other.events.append)
        sync.fetch_models(planner.plan().steps)
        sync.finish()
        assert planner.find_missing_model(stage) == ""
        assert planner.decide(stage, {}).inputs == {"baseline": accepted}
        assert [event.waits_for for event in other.events if isinstance(event, StageWaiting)] == [
            f"the accepted model from the remote, {show((first.folder / 'model.onnx').stat().st_size, 'B')}"
        ]
    assert notices(other) == []


ACCEPT = ("baseline", "accept", "--force")  # the metric of its gate has no direction


@pytest.mark.slow
def test_accepted_models_are_given_to_the_remote(
    tmp_path: Path, folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run that is accepted knew of no remote; the other machine then has what its gate compares with."""
    project, other = machine(tmp_path, "one", ACCEPTABLE), machine(tmp_path, "other", ACCEPTABLE)
    accepted = project.run()["make"].tree
    arguments = [*ACCEPT, str(project.folder / "pipeline.yaml"), "--store", str(project.store), "--remote", folder]
    notices = []
    for mode in ("read", "read-write", "read-write"):
        assert main([*arguments, "--remote-mode", mode, "--json"]) == 0
        notices.append(json.loads(capsys.readouterr().out)["notices"])
    assert notices[0] == notices[2] == [], "what is only read gets nothing, and nothing goes twice"
    pushed = [notice for notice in notices[1] if not notice.startswith("pushing")]  # said when it takes over a second
    assert [notice.partition(" (")[0] for notice in pushed] == [f"remote {folder}: 1 pushed"]
    result = other.run(remote=folder)
    assert outcomes(result) == {"make": "cached", "words": "built"}
    assert result["make"].tree == accepted


def test_a_model_is_accepted_whatever_becomes_of_the_remote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = machine(tmp_path, "one", ACCEPTABLE)
    project.run()
    (tmp_path / "file").touch()
    url = f"file://{tmp_path}/file/remote"
    arguments = [*ACCEPT, str(project.folder / "pipeline.yaml"), "--store", str(project.store), "--remote", url]
    assert main(arguments) == 0
    first, notice, failing, last = capsys.readouterr().out.splitlines()
    assert first.startswith("accepted make, words of run ")
    assert notice.startswith(f"the remote {url} cannot be")
    assert failing == (
        "warning: words words max_regression 10% is failed all the same: "
        "words has no direction of improvement, so it has no regression"
    )
    assert last.startswith("commit ")
    assert main([*arguments, "--remote-required"]) == 3


def write_model(path: Path, name: str) -> None:
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    result = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], name, [value], [result])
    onnx.save(onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 17)]), path)
