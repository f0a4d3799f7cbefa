"""Models from the web: a server on this machine."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import onnx
import pytest

from orun.errors import OrunError
from tests.stages.models import ADD, WORDY, parse
from tests.stages.support import run_stage


class Handler(SimpleHTTPRequestHandler):
    """Serves a folder; an address below /away/ leads to a file of this machine, one below /cut/ ends early."""

    def do_GET(self) -> None:
        if self.path.startswith("/away/"):
            self.send_response(302)
            self.send_header("Location", f"file://{self.directory}/add.onnx")
            self.end_headers()
        elif self.path.startswith("/cut/"):
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"short")
        else:
            super().do_GET()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder and the address under which it is served."""
    folder = tmp_path / "site"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield folder, f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def refusal(folder: Path, **params: Any) -> str:
    with pytest.raises(OrunError) as caught:
        run_stage("convert/onnx", folder, params)
    return str(caught.value)


def test_a_model_with_its_external_data(site: tuple[Path, str], tmp_path: Path) -> None:
    folder, address = site
    onnx.save(parse(WORDY), folder / "wordy.onnx", save_as_external_data=True, location="weights", size_threshold=10)
    digests = {"digest": sha256(folder / "wordy.onnx"), "data": {"weights": sha256(folder / "weights")}}
    run = run_stage("convert/onnx", tmp_path, {"url": f"{address}/wordy.onnx", **digests})
    weights = onnx.load(run.model).graph.initializer
    assert weights[0].raw_data == parse(WORDY).graph.initializer[0].raw_data
    assert run.progress[-1] == (0, 0, "kB of weights")


def test_letters_that_are_not_ascii(site: tuple[Path, str], tmp_path: Path) -> None:
    folder, address = site
    onnx.save(parse(ADD), folder / "mon modèle.onnx")
    run = run_stage(
        "convert/onnx", tmp_path, {"url": f"{address}/mon modèle.onnx", "digest": sha256(folder / "mon modèle.onnx")}
    )
    assert onnx.load(run.model).graph.node[0].op_type == "Add"


def test_other_bytes_than_the_digest_says(site: tuple[Path, str], tmp_path: Path) -> None:
    folder, address = site
    onnx.save(parse(ADD), folder / "add.onnx")
    assert refusal(tmp_path, url=f"{address}/add.onnx", digest="0" * 64) == (
        f"{address}/add.onnx is not the file that its digest names\n"
        f"  SHA-256 is {sha256(folder / 'add.onnx')}\n"
        f"  expected {'0' * 64}\n"
        "  hint: check where the file comes from; write the new digest into the pipeline if it is right"
    )


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("none.onnx", "File not found"),
        ("away/add.onnx", "Found - Redirection to url 'file://{folder}/add.onnx' is not allowed"),
        ("cut/add.onnx", "IncompleteRead(0 bytes read, 995 more expected)"),
    ],
)
def test_an_address_that_cannot_be_fetched(site: tuple[Path, str], tmp_path: Path, path: str, why: str) -> None:
    folder, address = site
    assert refusal(tmp_path, url=f"{address}/{path}", digest="0" * 64) == (
        f"{address}/{path} cannot be fetched\n  {why.format(folder=folder)}"
    )


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"url": "https://host/add.onnx"},
            (
                "https://host/add.onnx has no `digest`\n"
                "  what lies there can change, and then the result would\n"
                "  hint: write its SHA-256 into the pipeline: sha256sum FILE"
            ),
        ),
        (
            {"url": "file:///add.onnx", "digest": "0" * 64},
            "file:///add.onnx cannot be fetched\n  only http:// and https:// are",
        ),
        *(
            (
                {"url": f"https://{credentials}@host/add.onnx", "digest": "0" * 64},
                "https://host/add.onnx was given with credentials\n  they would be stored in keys and records",
            )
            for credentials in ("me:secret", "secret")  # a token may stand in the place of a name
        ),
        (
            {"url": "https://host/add.onnx", "digest": "0" * 64, "data": {"../up": "0" * 64}},
            "data: '../up' lies outside the folder of the model",
        ),
    ],
)
def test_an_address_that_nothing_is_fetched_from(tmp_path: Path, params: dict[str, Any], message: str) -> None:
    assert refusal(tmp_path, **params) == message
