"""The report in a real browser: nothing is refused or asked for, all of it is seen, on a phone and in the dark, too."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Literal

import pytest

from orun.core.run_record import RunResult, StageResult
from orun.core.serialization import replace
from orun.report.html.page import render_page
from tests.facts import components, reasons_of
from tests.report.browser import Tab, browser
from tests.report.stored import stored_run
from tests.report.support import (
    COSINE,
    GATE_FAILED,
    INT8,
    NO_BASELINE,
    PASSED,
    STEPPED,
    UNSURE,
    crashed,
    linked,
    matrix,
    series,
)
from tests.thin import mostly_slow

WIDTHS = (360, 400, 900, 1400)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
LEAST = 4.5  # of the contrast of text to what is behind it, by WCAG 2.2, level AA

# Every text with the contrast of its colour to the first colour behind it; shapes are behind texts of drawings.
CONTRASTS = """
(() => {
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([red, green, blue]) => {
    const [r, g, b] = [red, green, blue].map(
      c => c / 255 <= .03928 ? c / 255 / 12.92 : ((c / 255 + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const behind = node => {
    const shape = node.parentNode.querySelector(':scope > rect:not(.side)');
    if (node.localName === 'text' && shape) return parse(getComputedStyle(shape).fill);
    for (let one = node; one; one = one.parentElement) {
      const colour = parse(getComputedStyle(one).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
  };
  const found = [];
  for (const node of document.body.querySelectorAll('*')) {
    const own = [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim());
    if (!own || ['title', 'desc'].includes(node.localName)) continue;
    const style = getComputedStyle(node);
    const colour = parse(node.localName === 'text' ? style.fill : style.color);
    const [low, high] = [light(colour), light(behind(node))].sort((a, b) => a - b);
    found.push([(high + .05) / (low + .05), node.localName + '.' + node.getAttribute('class'), node.textContent]);
  }
  return found;
})()
"""
# Elements that stick out of the page, those apart that are in something that scrolls by itself.
OUTSIDE = """
[...document.body.querySelectorAll('*')].filter(node => {
  const box = node.getBoundingClientRect();
  return box.width && !node.closest('.wide, pre, caption') && node.closest('svg') in [null, node] &&
    (box.right > innerWidth + 1 || box.left < -1);
}).map(node => node.outerHTML.slice(0, 200))
"""


# Pairs of texts that are drawn over one another, each in an element of its own.
OVERLAPS = """
(() => {
  const boxes = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!node.data.trim() || node.parentElement.closest('caption, title, desc, thead')) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) if (box.width && box.height) boxes.push([box, node.data]);
  }
  boxes.sort((a, b) => a[0].top - b[0].top);
  const found = [];
  for (let i = 0; i < boxes.length; i++) {
    const [first, text] = boxes[i];
    for (let j = i + 1; j < boxes.length && boxes[j][0].top < first.bottom - 5; j++) {
      const [second, other] = boxes[j];
      if (second.left < first.right - 2 && first.left < second.right - 2) found.push([text, other]);
    }
  }
  return found;
})()
"""


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


def runs(folder: Path) -> dict[str, RunResult]:
    log = folder / "int8.log"
    log.write_text(
        "a line of a log that is longer than a phone is wide, by far: " * 20 + "\n</pre><script>x</script>\n"
    )
    long = StageResult("x" * 300, "y" * 300, "built", reasons_of("z" * 300), "k" * 300, needs=("export",))
    known = replace(INT8, inputs=components({f"parameter {'p' * 90}": "v" * 900, "tool onnx": "onnx 1.23.2"}))
    return {
        "passed": linked(PASSED),
        "failed": linked(GATE_FAILED),
        "undecided": replace(PASSED, exit_code=4, verdicts=(COSINE, replace(UNSURE, fails=True), NO_BASELINE)),
        "no baseline": replace(PASSED, verdicts=(COSINE, NO_BASELINE)),
        "crashed": linked(crashed(log)),
        "matrix": replace(PASSED, stages=matrix(59), verdicts=()),
        "stored": stored_run(folder),
        "long": replace(PASSED, pipeline="p" * 300, stages=(PASSED.stages[0], known, long), verdicts=()),
    }


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    results = runs(folder)
    written = {name: folder / f"{name}.html" for name in results}
    for name, result in results.items():
        written[name].write_text(
            render_page(result, [series(STEPPED)], "the `history` cannot be read"), encoding="utf-8"
        )
    return written


NAMES = ("passed", "failed", "undecided", "no baseline", "crashed", "matrix", "stored", "long")


@pytest.mark.parametrize(("name", "width"), mostly_slow(product(NAMES, WIDTHS), *product(NAMES, WIDTHS[:1])))
def test_a_page_asks_for_nothing_complains_of_nothing_and_fits(
    tab: Tab, pages: dict[str, Path], name: str, width: int
) -> None:
    tab.show(pages[name], width)
    tab.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    assert tab.evaluate(OUTSIDE) == []
    assert tab.evaluate(OVERLAPS) == []
    assert (tab.complaints, tab.requests) == ([], [])


@pytest.mark.parametrize(("name", "scheme"), mostly_slow(product(NAMES, SCHEMES), *product(NAMES[:4], SCHEMES)))
def test_every_text_stands_out_from_what_is_behind_it(
    tab: Tab, pages: dict[str, Path], name: str, scheme: Literal["light", "dark"]
) -> None:
    tab.show(pages[name], scheme=scheme)
    tab.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    contrasts = tab.evaluate(CONTRASTS)
    assert len(contrasts) > 20
    assert [text for text in contrasts if text[0] < LEAST] == []


def test_the_colours_follow_the_system(tab: Tab, pages: dict[str, Path]) -> None:
    colours = []
    for scheme in SCHEMES:
        tab.show(pages["passed"], scheme=scheme)
        colours.append(tab.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert colours == ["rgb(255, 255, 255)", "rgb(13, 17, 23)"]


@pytest.mark.parametrize(
    ("name", "colour"),
    [
        ("passed", "rgb(218, 251, 225)"),
        ("failed", "rgb(255, 235, 233)"),
        ("undecided", "rgb(255, 248, 197)"),
        ("no baseline", "rgb(234, 238, 242)"),
    ],
)
def test_the_banner_has_the_colour_of_the_verdict(tab: Tab, pages: dict[str, Path], name: str, colour: str) -> None:
    """Green, red, amber and grey."""
    tab.show(pages[name], scheme="light")
    assert tab.evaluate("document.querySelector('.verdict strong').textContent") == name
    assert tab.evaluate("getComputedStyle(document.querySelector('.verdict')).backgroundColor") == colour


def test_a_stage_of_the_graph_leads_to_its_row(tab: Tab, pages: dict[str, Path]) -> None:
    tab.show(pages["failed"])
    clicked = "document.querySelector('svg.graph a[href=\"#stage-latency\"]')"
    tab.evaluate(f"{clicked}.dispatchEvent(new MouseEvent('click', {{bubbles: true}}))")
    assert tab.evaluate("location.hash") == "#stage-latency"
    assert tab.evaluate("document.querySelector('tr:target').id") == "stage-latency"
    assert tab.evaluate("Math.abs(document.querySelector('tr:target').getBoundingClientRect().top) < innerHeight")


def test_what_is_not_asked_for_is_folded(tab: Tab, pages: dict[str, Path]) -> None:
    tab.show(pages["failed"])
    assert tab.evaluate("document.querySelectorAll('details[open]').length") == 0
    tab.evaluate("document.querySelector('details > summary').click()")
    assert tab.evaluate("document.querySelector('details').open")


def test_a_script_would_not_run(tab: Tab, pages: dict[str, Path], tmp_path: Path) -> None:
    """The policy holds where escaping would not: a page with a script put in is the proof that it is in force."""
    text = pages["passed"].read_text(encoding="utf-8")
    path = tmp_path / "evil.html"
    path.write_text(text.replace("<main>", "<main><script>document.title = 'evil'</script>"), encoding="utf-8")
    tab.show(path)
    assert tab.evaluate("document.title") == "bert: passed"
    assert [complaint[:60] for complaint in tab.complaints] == [
        "Executing inline script violates the following Content Secur"
    ]
    tab.complaints.clear()


def test_paper_is_white_and_has_no_navigation(tab: Tab, pages: dict[str, Path]) -> None:
    tab.show(pages["failed"], 720, scheme="dark", media="print")
    assert tab.evaluate(OUTSIDE) == []
    assert tab.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert tab.evaluate("getComputedStyle(document.querySelector('table')).display") == "table"


# Cells of a row of a table in folded details whose texts do not begin at one height, and tables that begin elsewhere
# than the lists around them.
MISALIGNED = """
(() => {
  const text = node => { const range = document.createRange(); range.selectNodeContents(node); return range; };
  const found = [];
  for (const table of document.querySelectorAll('tr.below details table')) {
    for (const line of table.querySelectorAll('tr')) {
      const tops = [...line.children].filter(cell => cell.textContent).map(
        cell => text(cell).getBoundingClientRect().top);
      const lines = [...line.children].map(cell => getComputedStyle(cell).borderTopWidth);
      if (Math.max(...tops) - Math.min(...tops) > 1.5 || new Set(lines).size > 1) found.push(line.textContent);
    }
    const terms = table.closest('details').querySelector('dt');
    if (Math.abs(table.getBoundingClientRect().left - terms.getBoundingClientRect().left) > 1) found.push('indent');
    const weight = getComputedStyle(table.querySelector('thead th')).fontWeight;
    if (weight !== '400') found.push('head ' + weight);
  }
  return found;
})()
"""


@pytest.mark.parametrize("name", ["passed", "failed", "undecided", "no baseline", "long"])
def test_tables_in_details_are_aligned(tab: Tab, pages: dict[str, Path], name: str) -> None:
    tab.show(pages[name])
    tab.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert tab.evaluate("document.querySelectorAll('tr.below details table').length") > 0
    assert tab.evaluate(MISALIGNED) == []
