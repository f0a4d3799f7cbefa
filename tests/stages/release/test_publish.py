"""`release/publish`: to a folder, and to a real S3 server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from urllib.request import Request, urlopen

import onnx
import pytest
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

import orun
from orun.errors import StageFailed, UsageError
from orun.stages.release._folder import Folder
from orun.stages.release._manifest import verify_bundle
from tests.remote.support import contents
from tests.stages.models import parse
from tests.stages.support import digest

from .support import MATMUL, make_bundle, publish, receipt


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return make_bundle(tmp_path).output


def test_a_folder(tmp_path: Path, bundle: Path) -> None:
    run = publish(tmp_path, bundle, "released/tiny")
    assert verify_bundle(tmp_path / "released/tiny") == []
    document = receipt(run)
    manifest = json.loads((bundle / "manifest.json").read_text())
    assert document == {
        "to": "released/tiny",
        "reference": "",
        **{k: manifest[k] for k in ("name", "version", "digest", "files")},
    }
    assert run.value("files") == 4
    again = publish(tmp_path, bundle, "released/tiny")
    assert receipt(again) == document
    assert again.log == "released/tiny already holds this release\n"


@pytest.mark.parametrize("name", ["manifest.json", ".orun-publishing.json"])
def test_a_pipe_that_would_have_to_be_read_is_refused(tmp_path: Path, bundle: Path, name: str) -> None:
    (tmp_path / "released").mkdir()
    os.mkfifo(tmp_path / "released" / name)
    with pytest.raises(UsageError) as caught:
        publish(tmp_path, bundle, "released")
    document = f"{(tmp_path / 'released').as_uri()} did not take the release\n  {name} is a pipe or device, not a file"
    assert str(caught.value) == document


def test_a_pipe_in_the_place_of_a_file_is_replaced(tmp_path: Path, bundle: Path) -> None:
    (tmp_path / "released").mkdir()
    os.mkfifo(tmp_path / "released" / "model.onnx")
    publish(tmp_path, bundle, "released")
    assert verify_bundle(tmp_path / "released") == []


def test_another_release_is_not_replaced_unless_the_file_says_so(tmp_path: Path, bundle: Path) -> None:
    extra = tmp_path / "card"
    extra.mkdir()
    (extra / "README.md").write_text("# card\n")
    older = make_bundle(tmp_path, "0.9", card=extra).output
    publish(tmp_path, older, "released")
    with pytest.raises(UsageError) as caught:
        publish(tmp_path, bundle, "released")
    old, new = (json.loads((folder / "manifest.json").read_text())["digest"] for folder in (older, bundle))
    assert str(caught.value) == (
        "released holds another release\n"
        f"  its manifest has the digest {old}\n"
        f"  that of this release is {new}\n"
        "  hint: publish to another place, or set `overwrite: true`"
    )
    assert verify_bundle(tmp_path / "released") == []
    publish(tmp_path, bundle, "released", overwrite=True)
    assert digest(tmp_path / "released") == digest(bundle)


def test_what_another_manifest_names_outside_is_left_alone(tmp_path: Path, bundle: Path) -> None:
    target = tmp_path / "released"
    target.mkdir()
    for name in ("old.bin", "mine.txt"):
        (target / name).write_text("old")
    (tmp_path / "outside.txt").write_text("mine")
    names = ["old.bin", "../outside.txt", str(tmp_path / "outside.txt"), "", 3]
    document = {"digest": "another", "files": [{"path": name} for name in names[:-1]]}
    (target / "manifest.json").write_text(json.dumps(document))
    publish(tmp_path, bundle, "released", overwrite=True)
    assert (tmp_path / "outside.txt").read_text() == "mine"
    assert sorted(path.name for path in target.iterdir()) == sorted([*digest(bundle), "mine.txt"])
    document["files"] = [{"path": name} for name in names]
    (target / "manifest.json").write_text(json.dumps(document))  # no manifest of orun
    publish(tmp_path, bundle, "released", overwrite=True)
    assert (target / "mine.txt").exists()


KILLED = """
import os, sys
from pathlib import Path
from orun.stages.release._folder import Folder
from orun.stages.release._publishing import build_publisher
upload, remaining = Folder.upload, int(sys.argv[3])


def dying(self, name, path, size):
    global remaining
    if remaining == 0:
        os.kill(os.getpid(), 9)
    remaining -= 1
    upload(self, name, path, size)


Folder.upload = dying
bundle = Path(sys.argv[1])
names = sorted(path.name for path in bundle.iterdir() if path.name != "manifest.json")
build_publisher(sys.argv[2], Path()).publish(bundle, [*names, "manifest.json"])
"""


def kill_while_publishing(bundle: Path, to: Path, files: int) -> None:
    """Publish, and die when so many files are there."""
    command = [sys.executable, "-c", KILLED, str(bundle), to.as_uri(), str(files)]
    assert subprocess.run(command, check=False, timeout=120).returncode == -signal.SIGKILL


@pytest.mark.parametrize("files", [0, 3])  # none of them, and all but the manifest
def test_what_is_half_published_does_not_look_whole(tmp_path: Path, bundle: Path, files: int) -> None:
    target = tmp_path / "released"
    kill_while_publishing(bundle, target, files)
    assert verify_bundle(target) == ["manifest.json is missing: publishing is still running, or was interrupted"]
    (target / ".model.onnx.orun-part").touch()  # of an upload that was killed before its file was renamed
    publish(tmp_path, bundle, "released")
    assert digest(target) == digest(bundle)


def test_a_release_that_was_half_replaced_is_none(tmp_path: Path, bundle: Path) -> None:
    """And what the interrupted one, or the one before it, had beside is gone when the next one is published."""
    card = tmp_path / "card"
    card.mkdir()
    (card / "README.md").write_text("# card\n")
    first, second = (make_bundle(tmp_path, version, card=card).output for version in ("0.8", "0.9"))
    target = tmp_path / "released"
    publish(tmp_path, first, "released")
    kill_while_publishing(second, target, 1)
    assert verify_bundle(target) == ["manifest.json is missing: publishing is still running, or was interrupted"]
    with pytest.raises(UsageError) as caught:
        publish(tmp_path, bundle, "released")
    begun, new = (json.loads((folder / "manifest.json").read_text())["digest"] for folder in (second, bundle))
    assert str(caught.value) == (
        "another release is being published to released, or its publishing was interrupted\n"
        f"  its manifest has the digest {begun}\n"
        f"  that of this release is {new}\n"
        "  hint: wait until it is published; if it was interrupted, set `overwrite: true` or publish to another place"
    )
    publish(tmp_path, bundle, "released", overwrite=True)
    assert digest(target) == digest(bundle)


def test_a_release_of_which_a_file_is_gone_is_published_again(tmp_path: Path, bundle: Path) -> None:
    publish(tmp_path, bundle, "released")
    (tmp_path / "released/model.onnx").unlink()
    assert publish(tmp_path, bundle, "released").log == (
        "released holds this release without model.onnx: published again\npublished 4 files to released\n"
    )
    assert digest(tmp_path / "released") == digest(bundle)


PIPELINE = """
stages:
  model: {uses: convert/onnx, with: {path: model.onnx}}
  release: {uses: release/bundle, needs: model, with: {version: VERSION}}
  publish: {uses: release/publish, needs: release, with: {to: out/tiny, overwrite: true}}
"""


def test_a_folder_of_the_project_is_no_input_of_the_stage_and_no_undeclared_write(tmp_path: Path) -> None:
    """Neither when nothing is there yet, nor when the release before is replaced."""
    onnx.save(parse(MATMUL), tmp_path / "model.onnx")
    for version, outcome in (("1", "built"), ("1", "cached"), ("2", "built")):
        (tmp_path / "pipeline.yaml").write_text(PIPELINE.replace("VERSION", f'"{version}"'))
        result = orun.run(tmp_path / "pipeline.yaml", store=tmp_path / "store")
        assert (result.exit_code, result["publish"].outcome) == (0, outcome), result["publish"].failure
        assert result["publish"].wrote == ()
        assert verify_bundle(tmp_path / "out/tiny") == []
        assert json.loads((tmp_path / "out/tiny/manifest.json").read_text())["version"] == version


def test_of_two_that_publish_at_the_same_time_one_is_refused(
    tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one comes while the first file is copied; it may overwrite, and takes the place."""
    other = make_bundle(tmp_path, "2.0").output
    upload, paths = Folder.upload, list[Path]()

    def disturbed(self: Folder, name: str, path: str, size: int) -> None:
        upload(self, name, path, size)
        if not paths:
            paths.append(Path(path))
            publish(tmp_path, other, "released", overwrite=True)

    monkeypatch.setattr(Folder, "upload", disturbed)
    with pytest.raises(UsageError) as caught:
        publish(tmp_path, bundle, "released")
    assert str(caught.value) == (
        f"another process publishes to {(tmp_path / 'released').as_uri()} at the same time\n"
        "  the files copied by this stage have no manifest, so they are no release\n"
        "  hint: publish again when the other process has ended"
    )
    assert digest(tmp_path / "released") == digest(other)


def test_a_file_that_another_one_still_wrote_is_noticed(
    tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one that was believed to be dead: its last file arrives after ours."""
    kill_while_publishing(make_bundle(tmp_path, "2.0").output, tmp_path / "released", 1)
    upload = Folder.upload

    def late(self: Folder, name: str, path: str, size: int) -> None:
        upload(self, name, path, size)
        if name == "provenance.json":
            (tmp_path / "released" / name).write_bytes(b"?" * size)

    monkeypatch.setattr(Folder, "upload", late)
    with pytest.raises(UsageError) as caught:
        publish(tmp_path, bundle, "released", overwrite=True)
    assert caught.value.problem == f"another process publishes to {(tmp_path / 'released').as_uri()} at the same time"
    assert not (tmp_path / "released/manifest.json").exists()


def test_a_place_without_a_name(tmp_path: Path, bundle: Path) -> None:
    with pytest.raises(UsageError) as caught:
        publish(tmp_path, bundle, " ")
    assert str(caught.value) == "`to` is empty\n  the files of a release need a folder of their own"


def test_a_damaged_bundle_is_not_published(tmp_path: Path, bundle: Path) -> None:
    (bundle / "model.onnx").write_bytes(b"")
    with pytest.raises(StageFailed) as caught:
        publish(tmp_path, bundle, "released")
    assert caught.value.problem == "the bundle is damaged, so it is not published"
    assert not (tmp_path / "released").exists()


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket of a real S3 server on loopback."""
    server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=True)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    for name, value in {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    with urlopen(Request(f"{endpoint}/releases", method="PUT"), timeout=20) as answer:  # noqa: S310 - our own server
        assert answer.status == 200
    yield "s3://releases"
    server.shutdown()
    server.server_close()


def test_a_bucket(tmp_path: Path, bundle: Path, bucket: str) -> None:
    to = f"{bucket}/tiny/1.0"
    publish(tmp_path, bundle, to)
    assert contents(to) == {path.name: path.read_bytes() for path in bundle.iterdir()}
    assert publish(tmp_path, bundle, to).log == f"{to} already holds this release\n"


def test_an_unknown_place(tmp_path: Path, bundle: Path) -> None:
    with pytest.raises(UsageError) as caught:
        publish(tmp_path, bundle, "ftp://somewhere")
    assert str(caught.value) == (
        "a release cannot be published to ftp://\n"
        "  expected a folder, file://, s3://, gs://, az://, hf://, mlflow:// or oci://"
    )


@pytest.mark.parametrize(
    "to", ["s3://key:hunter2@bucket/x", "oci://user:hunter2@localhost:1/owner/name:1", "az://box/x?sig=hunter2"]
)
def test_secrets_in_an_url_are_refused_and_not_shown(tmp_path: Path, bundle: Path, to: str) -> None:
    with pytest.raises(UsageError) as caught:
        publish(tmp_path, bundle, to)
    scheme = to.partition(":")[0]
    assert str(caught.value) == (
        f"`to` must not hold credentials or a query: {scheme}://...\n"
        "  the parameters of a stage are stored with its result\n"
        "  hint: set credentials in the environment; `orun stages release/publish` lists the variables"
    )


def test_brackets_that_do_not_match(tmp_path: Path, bundle: Path) -> None:
    with pytest.raises(UsageError) as caught:
        publish(tmp_path, bundle, "s3://[bucket/x")
    assert str(caught.value) == "`to` is not a valid URL\n  Invalid IPv6 URL"
