"""orun report, and what its page says of a release."""

from __future__ import annotations

import hashlib
import html
import io
import json
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orun.core.source_location import abridge
from orun.report.html.stored import read_samples
from orun.text.units import show
from tests.faults.projects import write_model

from .conftest import CommandLine, steady

RELEASE = """\
stages:
  import: {uses: convert/onnx, with: {path: model.onnx}}
  named: {uses: release/metadata, needs: import, with: {doc_string: a}, gate: {size: {max_regression: 50%}}}
  release: {uses: release/bundle, needs: named, with: {version: 1.2.0}}
"""


def texts(page: Path) -> str:
    """The words of a page, without its style and drawings."""
    body = re.sub(r"<style>.*?</style>|<svg.*?</svg>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


def test_an_earlier_run_is_shown_again(orun: CommandLine, project: Path) -> None:
    del project
    first = orun("words.yaml")
    orun("words.yaml", "--set", "stages.write.with.text=one two three four")
    assert steady(orun("report", "last~1").out) == steady(first.out[first.out.index("stage  ") :])


def test_the_results_of_a_store_that_was_moved_are_there(orun: CommandLine, project: Path) -> None:
    orun("words.yaml", "-q")
    (project / "artifacts").rename(project / "moved")
    assert orun("report", "--store", "moved").out.endswith("; results in moved/out/words\n")
    shutil.rmtree(project / "moved/out")  # as where only what is private to orun is copied
    assert "results in" not in orun("report", "--store", "moved").out


def test_files_of_an_earlier_run_are_those_of_then(orun: CommandLine, project: Path) -> None:
    orun("words.yaml", "--html", "then.html", "--markdown", "then.md")
    report = orun("report", "--html", "now.html", "--markdown", "now.md")
    assert (report.code, report.out) == (0, "wrote now.html\nwrote now.md\n")
    assert (project / "now.md").read_text() == (project / "then.md").read_text()
    assert texts(project / "now.html") == texts(project / "then.html")


def test_there_is_no_such_run(orun: CommandLine, project: Path) -> None:
    orun("words.yaml")
    answer = orun("report", "last~3", "--html", "report.html")
    assert (answer.code, answer.err) == (
        2,
        "error: there is no last~3\n  the store has 1 run of words\n  hint: to run it again: orun words.yaml\n",
    )
    assert not (project / "report.html").exists()


def test_the_page_of_a_release(orun: CommandLine, project: Path) -> None:
    write_model(project)
    (project / "release.yaml").write_text(RELEASE)
    assert orun("release.yaml").code == 0
    orun("report", "--html", "first.html")
    page = texts(project / "first.html")
    bundle = project / "artifacts/out/release/release"
    manifest = (bundle / "manifest.json").read_bytes()
    digest = hashlib.sha256(manifest).hexdigest()
    model = hashlib.sha256((bundle / "model.onnx").read_bytes()).hexdigest()
    version = json.loads(manifest)["version"]
    assert version == "1.2.0"
    assert f"version {version} SHA-256 of the bundle {digest} , the digest of manifest.json" in page
    assert f"model.onnx {show((bundle / 'model.onnx').stat().st_size, 'B')} {model}" in page
    assert "check a copy orun verify artifacts/out/release/release" in page
    assert "Since the accepted release" not in page

    orun("baseline", "accept", "release.yaml")
    orun("report", "--html", "accepted.html")
    assert "This run is the accepted one: on " in texts(project / "accepted.html")

    change = ("--set", "stages.named.with.doc_string=longer")
    orun("release.yaml", *change, "--html", "changed.html")
    page = texts(project / "changed.html")
    section = page[page.index("Since the accepted release accepted on") : page.index("What is released name")]
    assert "named doc_string a longer" in section
    assert re.search(r"release size [\d.]+ k?B [\d.]+ k?B [+-][\d.]+ %", section)

    orun("release.yaml", *change, "--store", "runner", "--html", "elsewhere.html")  # the accepted run is not there
    page = texts(project / "elsewhere.html")
    section = page[page.index("Since the accepted release accepted on") : page.index("What is released name")]
    limit = "The accepted run is not in this store: only figures and settings of the baseline file are compared."
    assert limit in section
    assert "setting accepted now named doc_string a longer" in section
    assert re.search(r"release size [\d.]+ k?B [\d.]+ k?B [+-][\d.]+ %", section)

    orun("baseline", "accept", "release.yaml", *change)
    orun("report", "last~1", "--html", "before.html")  # a run of before the accepted one
    assert "Since the accepted release" not in texts(project / "before.html")


def test_a_failed_gate_says_what_changed_where_the_accepted_run_is_not_stored(
    orun: CommandLine, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_9f3c2e1d7b")
    write_model(project)
    (project / "release.yaml").write_text(RELEASE.partition("  release:")[0])
    orun("release.yaml")
    orun("baseline", "accept", "release.yaml")
    longer = "b" * 9000
    text = f"stages.named.with.doc_string=hf_9f3c2e1d7b{longer}"
    change = ("--set", text, "--store", "runner", "--markdown", "summary.md")
    now = abridge(json.dumps(f"***{longer}")).replace("*", "\\*")
    note = f'since the accepted release: named.doc\\_string "a" -\\> {now}'
    for run in ("first", "repeated"):
        assert orun("release.yaml", *change).code == 1, run
        assert note in (project / "summary.md").read_text().split("\n"), run


def test_samples_are_read_without_numpy(tmp_path: Path) -> None:
    times = np.random.default_rng(0).random(1000)
    arrays: dict[str, Any] = {"model.wall": times, "model.launch": np.arange(3)}
    np.savez_compressed(tmp_path / "samples.npz", **arrays)
    samples = read_samples((tmp_path / "samples.npz").read_bytes())
    assert list(samples) == ["model.wall"]
    assert list(samples["model.wall"]) == list(times)


def test_what_holds_no_samples_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^File is not a zip file$"):
        read_samples(b"PK\x03\x04")
    with zipfile.ZipFile(archive := io.BytesIO(), "w") as file:
        file.writestr("model.wall.npy", b"1 2 3")
    with pytest.raises(ValueError, match=r"^this is no array of NumPy's format 1$"):
        read_samples(archive.getvalue())
