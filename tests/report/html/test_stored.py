"""Sections that read the artifacts of a run: models, layers, tuning, sizes, latency."""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path

import pytest

from orun.core.run_record import RunResult
from orun.core.serialization import replace
from orun.report.html.page import render_page
from tests.report.pages import Element, read, titles
from tests.report.stored import ARTIFACTS, LAYER, stored_run, write_samples

from .test_page import rows


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunResult, Element]:
    """The folder of a run, the run, and its page."""
    folder = tmp_path_factory.mktemp("stored")
    result = stored_run(folder)
    return folder, result, read(render_page(result))


def figures(section: Element) -> list[list[str]]:
    """The texts of the rows of the section's first table, without the pictures."""
    pictures = [cell.text for cell in section.every("td", "picture")]
    return [[cell for cell in row if cell and cell not in pictures] for row in rows(section)]


def test_a_page_has_a_section_for_each_sort_of_artifact(run: tuple[Path, RunResult, Element]) -> None:
    assert titles(run[2]) == [
        "Release checklist", "What is released", "Models", "Graph", "Size by stage", "Latency", "Layers", "Tuning",
        "Stages", "Environment",
    ]  # fmt: skip


def test_the_released_model_stands_before_its_original(run: tuple[Path, RunResult, Element], tmp_path: Path) -> None:
    document = run[2]
    ARTIFACTS["int8"][1](tmp_path)
    released, original = document.at("models").every("div", "block")
    assert [block.only("h3").text for block in (released, original)] == ["int8 ✓released", "export original"]
    assert [[cell.text for cell in row.children if isinstance(cell, Element)] for row in released.every("tr")[1:3]] == [
        ["x", "input", "float", "[batch, 64]"], ["y", "output", "float", "[batch, 64]"],
    ]  # fmt: skip
    facts = {fact.only("dt").text: fact.only("dd").text for fact in released.only("dl").every("div")}
    assert facts == {"parameters": "4,096: int8 4,096", "operators": "1: MatMul 1", "operator sets": "ai.onnx 20"}
    digest = hashlib.sha256((tmp_path / "model.onnx").read_bytes()).hexdigest()
    assert released.every("table")[1].every("code")[1].text == digest
    assert digest in document.at("release").text


def test_a_model_whose_release_was_not_made_is_not_released(run: tuple[Path, RunResult, Element]) -> None:
    _, result, _ = run
    stages = [
        replace(stage, outcome="blocked", tree="") if stage.uses == "release/bundle" else stage
        for stage in result.stages
    ]
    document = read(render_page(replace(result, stages=tuple(stages))))
    blocks = document.at("models").every("div", "block")
    assert [block.only("h3").text for block in blocks] == ["int8 not released", "export original"]
    assert [pill.attributes["class"] for pill in blocks[0].only("h3").every("span")] == ["pill dim"]


def test_sizes_are_a_waterfall(run: tuple[Path, RunResult, Element]) -> None:
    section = run[2].at("sizes")
    assert [title.text for title in section.only("thead").every("th")] == ["stage", "size", "against its input"]
    assert figures(section) == [
        ["export", "90 kB"], ["int8", "24 kB", "-73.3 %"], ["prune", "26 kB", "+8.3 %"], ["tuned", "24 kB", "-73.3 %"],
    ]  # fmt: skip
    bars = [[(bar.attributes["class"], bar.attributes["x"], bar.attributes["width"]) for bar in row.every("rect")]
            for row in section.every("tr")[1:4]]  # fmt: skip
    assert bars == [
        [("size", "0%", "100%")],
        [("size", "0%", "26.67%"), ("saved", "26.67%", "73.33%")],
        [("size", "0%", "26.67%"), ("added", "26.67%", "2.22%")],
    ]


def test_layers_have_their_error_and_their_time(run: tuple[Path, RunResult, Element]) -> None:
    section = run[2].at("layers")
    assert [title.text for title in section.every("h3")] == [
        "Error by layer: debug", "Time by operator: profile", "Time by layer: profile",
    ]  # fmt: skip
    errors, operators, times = section.every("table")
    assert figures(errors) == [
        [f"{LAYER}_0", "MatMul", "20.0 dB", "62 %"], [f"{LAYER}_1", "MatMul", "21.0 dB", "21 %"],
        [f"{LAYER}_2", "MatMul", "22.0 dB", "0 %"], [f"{LAYER}_3", "MatMul", "23.0 dB", "-12 %"],
        [f"{LAYER}_4", "MatMul", "24.0 dB", "makes up for others"],
    ]  # fmt: skip
    assert [bar.attributes["width"] for bar in errors.every("rect")][:2] == ["100%", "33.87%"]
    assert figures(operators) == [["MatMul", "-", "4 ms"], ["MatMulInteger", "1.8 ms", "-"]]
    assert len(figures(times)) == 12
    assert figures(times)[0][:3] == [f"{LAYER}_0", "MatMul", "1 ms"]
    assert section.every("p", "quiet")[-1].text.endswith("The stage's files have 8 more.")


def test_the_tuner_shows_its_front_and_its_goal(run: tuple[Path, RunResult, Element]) -> None:
    section = run[2].at("tuning")
    assert figures(section) == [
        ["static, on cpu", "0.97", "3.33x", "23 kB"],
        ["dynamic (per_channel=true), fused, 1 group kept in float, on cpu (chosen)", "0.993", "2.38x", "24 kB"],
        ["float, on cpu", "1", "1.00x", "90 kB"],
    ]
    assert [key.text for key in section.every("span", "key")] == [
        "chosen: dynamic (per_channel=true), fused, 1 group kept in float, on cpu", "other candidates",
        "goal: cosine.mean 0.99",
    ]  # fmt: skip
    assert len(section.only("svg").every("path", "point")) == 2
    assert section.only("svg").only("path", "threshold").attributes["d"] == "M0 333.3H1000"


def test_latencies_are_distributions(run: tuple[Path, RunResult, Element]) -> None:
    section = run[2].at("latency")
    lines = section.only("svg").every("path", "line")
    assert [line.attributes["class"] for line in lines] == ["line line-0", "line line-1"]
    assert [key.text.partition(",")[0] for key in section.every("span", "key")] == [
        "model: median 7.8 ms", "reference: median 16.5 ms",
    ]  # fmt: skip
    assert section.only("div", "y-axis").text == "100 %75 %50 %25 %0 %"


def test_a_latency_without_a_reference_has_one_line(
    tmp_path: Path, run: tuple[Path, RunResult, Element], monkeypatch: pytest.MonkeyPatch
) -> None:
    uses, _, needs, size = ARTIFACTS["latency"]
    monkeypatch.setitem(ARTIFACTS, "latency", (uses, partial(write_samples, names=("model",)), needs, size))
    section = read(render_page(stored_run(tmp_path))).at("latency")
    assert len(section.only("svg").every("path", "line")) == 1
    assert "timed in turn" in run[2].at("latency").text
    assert "timed in turn" not in section.text


def test_a_store_that_has_lost_its_objects_leaves_the_sections_out(tmp_path: Path) -> None:
    result = stored_run(tmp_path)
    for path in (tmp_path / "artifacts" / "objects").rglob("*"):
        if path.is_file():
            path.unlink()
    assert titles(read(render_page(result))) == ["Release checklist", "Graph", "Size by stage", "Stages", "Environment"]
