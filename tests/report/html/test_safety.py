"""The page loads nothing and runs nothing, whatever is in its texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from orun.core.metrics import Metric
from orun.core.run_record import Failure, RunResult, StageResult
from orun.core.serialization import replace
from orun.core.source_location import Position
from orun.core.verdict import Verdict
from orun.report.html.page import POLICY, render_page
from orun.report.html.templating import escape_invisible
from tests.facts import components, reasons_of
from tests.report import stored
from tests.report.pages import read
from tests.report.support import NOW, PASSED, linked

ODD = (
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a&amp;b", "</title></style>", "--><!--",
    "' onload='", "\x1b[31mred", "\x00", "\u202etxt.exe", "\udce9", "\ud83d", "\u2066x", "ünï 模型 🚀", "\ufeff",
    "url(http://x)", "`a`b`",
)  # fmt: skip


@pytest.mark.parametrize("odd", ODD)
def test_every_text_stays_text(odd: str, tmp_path: Path) -> None:
    place = Position(odd, 1, 1)
    stage = StageResult(
        odd, odd, "built", reasons_of(odd, odd), odd, odd, odd, 1, 1.0, NOW, {odd: Metric(1.0)}, None, place, (odd,),
        components({f"parameter {odd}": odd, f"tool {odd}": odd, odd: odd}), (), (odd,),
    )  # fmt: skip
    broken = replace(stage, stage=f"{odd}2", outcome="failed", failure=Failure(odd, odd, odd, odd), needs=(odd, "gone"))
    judged = Verdict(
        odd, odd, "max", odd, "failed", True, 1.0, "", None, reasons_of(odd)[0], place, odd, caveats=reasons_of(odd)
    )
    result = RunResult(
        odd, odd, odd, 3, 1.0, NOW, {odd: odd, "host": odd}, (stage, broken), (judged,), tmp_path, {odd: odd}, {},
        "", odd, odd, (odd,),
    )  # fmt: skip
    text = render_page(result)
    text.encode()
    document = read(text)
    assert len(document.at("stages").every("tr", "below")) == 2
    assert not {"\x1b", "\x00", "\u202e", "\u2066", "\ufeff"} & set(text)


def test_names_in_artifacts_stay_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = " ".join(ODD).encode(errors="replace").decode()  # what a model can hold
    monkeypatch.setattr(stored, "LAYER", name)
    monkeypatch.setattr(stored, "INPUT", name)
    text = render_page(stored.stored_run(tmp_path))
    document = read(text)
    assert document.at("models").every("th")[4].text == escape_invisible(name)
    assert document.at("layers").every("tbody")[0].every("th")[0].text == f"{escape_invisible(name)}_0"
    assert not {"\x1b", "\x00", "\u202e", "\u2066", "\ufeff"} & set(text)


def test_nothing_is_loaded_and_nothing_runs() -> None:
    document = read(render_page(linked(PASSED)))
    policy = [element for element in document.every("meta") if "http-equiv" in element.attributes]
    assert [meta.attributes["content"] for meta in policy] == [POLICY]
    assert POLICY == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    sheet = document.only("style").text
    assert "@import" not in sheet
    assert "url(" not in sheet
    assert "<" not in sheet
