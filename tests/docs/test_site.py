"""The docs site: it builds without a warning, its links lead somewhere, and it works in a browser."""

from __future__ import annotations

import functools
import html
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from orun.stages.registry import BUILTIN
from tests.report.browser import Tab, browser

pytestmark = pytest.mark.slow  # the site is built; test_docs.py looks at the links and the navigation of its sources

ROOT = Path(__file__).parents[2]
LABEL = re.compile(r'[\[{]\(?"?([^"\](}]+)')
SEARCH = "[...document.body.children].map(element => element.shadowRoot).find(root => root)"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(ROOT / "zensical.toml", folder)
    (folder / "orun").symlink_to(ROOT / "orun")  # whose docstrings the page of the API is made of
    shutil.copytree(ROOT / "docs", folder / "docs")
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    build = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert build.returncode == 0, build.stdout + build.stderr
    assert "No issues found" in build.stdout + build.stderr
    return folder / "site"


class Page(HTMLParser):
    """What a page links to, and where links may lead within it.

    Attributes:
        links: the addresses of its links, pictures, styles and scripts.
        anchors: the names of its places.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del tag
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name in ("id", "name") and value:
                self.anchors.add(value)


def test_links_lead_somewhere(site: Path) -> None:
    pages = {path.resolve(): Page(path) for path in site.rglob("*.html") if path.name != "404.html"}
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or link.startswith("//"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists() or (
                parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors
            ):
                broken.append(f"{path.relative_to(site.resolve())}: {link}")
    assert broken == []


def test_every_page_is_in_the_navigation(site: Path) -> None:
    home = Page(site / "index.html")
    linked = {unquote(urlsplit(link).path).strip("./") for link in home.links}
    pages = {str(path.parent.relative_to(site)) for path in site.rglob("index.html")} - {"."}
    assert pages - linked == set()
    assert {f"reference/stages/{kind}" for kind in BUILTIN} <= pages


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    """Where the site is served on this machine."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_it_works_in_a_browser(site: Path, address: str, tmp_path: Path) -> None:
    with browser(tmp_path / "chromium") as tab:
        for path in sorted(site.rglob("index.html")):
            tab.show(f"{address}/{path.parent.relative_to(site)}/")
            assert tab.evaluate("document.querySelector('h1').innerText"), path
        for width in (400, 1400):
            tab.show(f"{address}/explanation/gates/", width=width, scheme="dark")
            wide = tab.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"the page is {wide} pixels wide on {width}"
        assert tab.complaints == []
        assert [request for request in tab.requests if not request.startswith(address)] == []


def test_the_search_answers(address: str, tmp_path: Path) -> None:
    with browser(tmp_path / "chromium") as tab:
        tab.show(f"{address}/")
        wait(tab, "document.querySelector('.md-search__button')")
        tab.evaluate("document.querySelector('.md-search__button').click()")
        wait(tab, f"{SEARCH} && {SEARCH}.querySelector('input')")
        tab.evaluate(f"{SEARCH}.querySelector('input').focus()")
        tab.ask("Input.insertText", text="undecided")
        wait(tab, f"{SEARCH}.querySelector('a[href*=undecided]')")
        first = tab.evaluate(f"{SEARCH}.querySelector('a[href*=undecided]').getAttribute('href')")
        assert "gates" in first


def wait(tab: Tab, expression: str) -> None:
    """Wait until JavaScript has a value."""
    deadline = time.monotonic() + 60
    while not tab.evaluate(f"Boolean({expression})"):
        assert time.monotonic() < deadline, expression
        time.sleep(0.05)


def test_the_picture_of_the_architecture_is_current() -> None:
    source = (ROOT / "docs" / "assets" / "architecture.mmd").read_text(encoding="utf-8")
    picture = " ".join(re.findall(r">([^<]+)<", (ROOT / "docs" / "assets" / "architecture.svg").read_text("utf-8")))
    labels = [part for label in LABEL.findall(source) for part in re.split(r"<br>|\s", label)]
    assert [label for label in labels if html.escape(label, quote=False) not in picture] == []
