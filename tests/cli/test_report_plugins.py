"""Reports of installed packages: `--report NAME=FILE`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from orun.environment.install_commands import choose_installer
from tests.site_packages import Site

from .conftest import CommandLine

Install = Callable[[str], Path]
GOOD = """
def render(record):
    return " ".join(stage.stage for stage in record.stages)
"""
KNOWN = "junit, markdown, html, code-quality, metrics, json"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a package that offers the report `names`, and returns its module."""
    site = Site.make(tmp_path / "environment")
    monkeypatch.syspath_prepend(site.folder)

    def put(text: str) -> Path:
        metadata = site.install("acme_reports", "1.2", text)
        (metadata / "entry_points.txt").write_text("[orun.reports]\nnames = acme_reports:render\n")
        monkeypatch.delitem(sys.modules, "acme_reports", raising=False)
        return site.folder / "acme_reports.py"

    return put


def test_a_package_renders_a_run(orun: CommandLine, project: Path, install: Install) -> None:
    install(GOOD)
    assert orun("words.yaml", "--report", "names=then.txt", "--report", "json=run.json").code == 0
    assert (project / "then.txt").read_text() == "write count"
    assert (project / "run.json").read_text().startswith("{")
    assert orun("words.yaml", "--report", "names=repeated.txt").code == 0
    assert (project / "repeated.txt").read_text() == "write count"
    answer = orun("report", "--report", "names=now.bin", "--report", "names=-")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == "wrote now.bin\n"  # the other one went past the captured stream


def test_bytes_are_written_as_they_are(orun: CommandLine, project: Path, install: Install) -> None:
    install("def render(record):\n    return bytes([0, 255])\n")
    assert orun("words.yaml", "--report", "names=run.bin").code == 0
    assert (project / "run.bin").read_bytes() == b"\x00\xff"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("nmes=a.txt", f"error: there is no report 'nmes'\n  did you mean names?\n  known: {KNOWN}, names\n"),
        ("pdf=a.txt", f"error: there is no report 'pdf'\n  known: {KNOWN}, names\n"),
        ("names=words.yaml", "error: words.yaml cannot be written\n"),
    ],
)
def test_what_is_refused_before_the_run(
    orun: CommandLine, project: Path, install: Install, option: str, message: str
) -> None:
    install(GOOD)
    before = (project / "words.yaml").read_text()
    answer = orun("words.yaml", "--report", option)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(message.rstrip("\n"))
    assert (project / "words.yaml").read_text() == before
    assert not (project / "artifacts").exists()


def test_two_reports_in_a_file(orun: CommandLine, project: Path, install: Install) -> None:
    install(GOOD)
    answer = orun("words.yaml", "--html", "a", "--report", "names=a")
    assert (answer.code, answer.err) == (
        2,
        "error: two reports would be written to a\n  hint: give each a file of its own\n",
    )
    assert not (project / "artifacts").exists()


@pytest.mark.parametrize("option", ["names", "names=", "=a.txt"])
def test_no_name_or_no_file(orun: CommandLine, project: Path, option: str) -> None:
    del project
    answer = orun("words.yaml", "--report", option)
    assert answer.code == 2
    assert f"{option!r} is not NAME=FILE" in answer.err


def test_a_package_that_cannot_be_imported(orun: CommandLine, project: Path, install: Install) -> None:
    install("import nothing_of_that_name\n")
    answer = orun("words.yaml", "--report", "names=a.txt")
    assert answer.code == 2
    assert answer.err == (
        "error: the report 'names' of the package acme_reports cannot be used: ModuleNotFoundError: No module named"
        " 'nothing_of_that_name' at environment/lib/python3/site-packages/acme_reports.py:1\n"
        f"  hint: {choose_installer()} --upgrade acme_reports\n"
    )
    assert not (project / "artifacts").exists()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "def render(record):\n    return 1 / 0\n",
            "ZeroDivisionError: division by zero at environment/lib/python3/site-packages/acme_reports.py:2",
        ),
        (
            "def render(record):\n    return None\n",
            "acme_reports:render returned NoneType, not str or bytes",
        ),
        ("def render():\n    return ''\n", "TypeError: render() takes 0 positional arguments but 1 was given"),
    ],
)
@pytest.mark.parametrize(("count", "code"), [("three four five", 2), ("two", 1)])
def test_a_report_that_fails_does_not_hide_the_verdict(
    orun: CommandLine, project: Path, install: Install, text: str, why: str, count: str, code: int
) -> None:
    install(text)
    change = ("--set", f"stages.write.with.text={count}", "--no-blame")
    answer = orun("words.yaml", *change, "--report", "names=a.txt", "--markdown", "a.md")
    assert (answer.code, answer.err) == (
        code,
        f"error: the report 'names' of the package acme_reports failed\n  {why}\n",
    )
    assert (project / "a.md").exists()
    assert not (project / "a.txt").exists()


def test_a_package_is_not_imported_by_a_run_that_does_not_ask_for_its_report(
    orun: CommandLine, project: Path, install: Install
) -> None:
    del project
    install("raise RuntimeError\n")
    assert orun("words.yaml", "--report", "markdown=a.md").code == 0


def test_a_report_with_the_name_of_one_of_orun_is_not_used(orun: CommandLine, project: Path, install: Install) -> None:
    module = install("raise RuntimeError\n")
    (points,) = module.parent.glob("*/entry_points.txt")
    points.write_text("[orun.reports]\nmarkdown = acme_reports:render\n")
    assert orun("words.yaml", "--report", "markdown=a.md").code == 0
    assert (project / "a.md").read_text().startswith("#")
