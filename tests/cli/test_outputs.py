"""Files that verbs write where the user says: no other file is lost, and none of an earlier run before its time."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from orun.fs.signatures import to_signature
from tests.cli.conftest import CommandLine

FORMS = ("junit", "markdown", "html")
FULL = "Nothing that was stored is lost. Free some space and run it again"
OLD = "the last report\n"
READING = """\
from pathlib import Path

import helper
from orun import Context, FilePath, stage


@stage(inputs={}, output="files", metrics=["length"])
def read(context: Context, *, data: FilePath, others: FilePath | None = None) -> dict[str, float]:
    \"\"\"Read a file.\"\"\"
    here = Path(__file__).parent
    text = (here / data).read_text() + (here / "hidden.txt").read_text() + helper.TEXT
    (context.output / "text.txt").write_text(text)
    return {"length": len(text)}
"""


@pytest.fixture
def reading(project: Path) -> dict[str, str]:
    """A pipeline that reads files of many kinds, in ways that it declares and does not; their contents by name."""
    files = {
        "base.yaml": "vars: {name: data.txt}\n",
        "read.py": READING,
        "helper.py": "TEXT = 'helper'\n",
        "data.txt": "data\n",
        "hidden.txt": "hidden\n",
        "folder/one.txt": "one\n",
        "pyproject.toml": "[project]\nname = 'it'\n",
        "pipeline.yaml": "extends: base.yaml\nstages:\n"
        "  read: {uses: './read.py:read', with: {data: '${vars.name}', others: folder}}\n",
    }
    (project / "folder").mkdir()
    for name, text in files.items():
        (project / name).write_text(text)
    return files


def contents(folder: Path, files: dict[str, str]) -> dict[str, str]:
    return {name: (folder / name).read_text() for name in files}


def refusal(name: str, why: str) -> tuple[int, str, str]:
    """Exit code, output and message of a verb that may not write to a file."""
    return 2, "", f"error: {name} cannot be written\n  {why}\n  hint: name another file\n"


def test_what_a_run_reads_is_refused(orun: CommandLine, project: Path, reading: dict[str, str]) -> None:
    """Before anything is touched; once it has run, also what it has read without declaring it."""
    (project / "link.html").symlink_to("read.py")
    (project / "twin.html").hardlink_to(project / "read.py")
    declared = {
        **dict.fromkeys(("pipeline.yaml", "base.yaml", "read.py", "data.txt", "pyproject.toml"), "a run reads it"),
        **dict.fromkeys(("folder/one.txt", "folder/new.html"), "a run reads the folder folder"),
        **dict.fromkeys(("link.html", "twin.html", "elsewhere/../read.py"), "a run reads this file, as read.py"),
    }
    seen = dict.fromkeys(("helper.py", "hidden.txt"), "a run reads it")
    (project / "elsewhere").symlink_to("folder")
    for name, why in declared.items():
        shown = orun("pipeline.yaml", "--html", name)
        assert (shown.code, shown.out, shown.err) == refusal(name, why)
    assert not (project / "artifacts").exists()
    assert orun("pipeline.yaml", "-q").code == 0
    for name, why in {**declared, **seen}.items():
        shown = orun("pipeline.yaml", "--html", name)
        assert (shown.code, shown.out, shown.err) == refusal(name, why)
    assert contents(project, reading) == reading
    assert not (project / "folder" / "new.html").exists()


@pytest.mark.parametrize("form", FORMS)
def test_each_report_is_refused_the_file_of_the_pipeline(orun: CommandLine, project: Path, form: str) -> None:
    before = (project / "words.yaml").read_text()
    shown = orun("words.yaml", f"--{form}", "words.yaml")
    assert (shown.code, shown.out, shown.err) == refusal("words.yaml", "a run reads it")
    assert (project / "words.yaml").read_text() == before


def test_what_was_read_for_the_first_time_is_refused_at_the_end(
    orun: CommandLine, project: Path, reading: dict[str, str]
) -> None:
    """Nobody knew before; the other reports are written."""
    shown = orun("pipeline.yaml", "-q", "--html", "hidden.txt", "--junit", "helper.py", "--markdown", "run.md")
    assert shown.code == 2
    assert shown.err == (
        "error: 2 reports cannot be written\n  helper.py cannot be written: a run reads it\n"
        "  hidden.txt cannot be written: a run reads it\n  hint: name another file\n"
    )
    assert contents(project, reading) == reading
    assert (project / "run.md").read_text().startswith("## pipeline\n")


def test_a_report_that_cannot_be_written_leaves_the_verdict(orun: CommandLine, project: Path) -> None:
    del project
    shown = orun("words.yaml", "-q", "--junit", "/dev/full", "--set", "stages.count.gate.words.min=5", "--no-blame")
    assert shown.code == 1
    assert shown.out.splitlines()[-1].endswith("; exit 1")
    assert shown.err == (
        "error: /dev/full cannot be written\n  No space left on device\n"
        "  hint: Nothing that was stored is lost. Free some space and run it again: df -h /dev/full\n"
    )
    assert orun("words.yaml", "-q", "--junit", "/dev/full").code == 2


def test_what_every_run_reads_is_refused(orun: CommandLine, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / ".git").mkdir()
    (project / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (project / "pyproject.toml").write_text("[tool.orun.remote]\ntrusted-keys = ['key.pub']\n")
    (project / "private.pem").write_text("-----BEGIN PRIVATE KEY-----\n")
    monkeypatch.setenv("ORUN_REMOTE_SIGNING_KEY", "private.pem")
    (project / "key.pub").write_text("-----BEGIN PUBLIC KEY-----\n")
    places = (".git/HEAD", "key.pub", "private.pem", pytest.__file__, os.__file__)
    before = [Path(place).read_text() for place in places]

    def require_refusals(*arguments: str) -> None:
        for place in places:
            shown = orun(*arguments, place)
            assert (shown.code, shown.out) == (2, "")
            assert shown.err.startswith(f"error: {place} cannot be written\n  ")

    require_refusals("words.yaml", "--html")
    assert orun("words.yaml", "-q").code == 0
    require_refusals("words.yaml", "--html")
    require_refusals("history", "--csv")
    assert [Path(place).read_text() for place in places] == before


@pytest.mark.parametrize("name", ["objects/new.html", "out/words/report.html", "VERSION", "history.sqlite"])
def test_what_only_orun_writes_is_refused(orun: CommandLine, project: Path, name: str) -> None:
    assert orun("words.yaml", "-q").code == 0
    before = (project / "artifacts/history.sqlite").read_bytes()
    for arguments in (("words.yaml", "--html"), ("history", "--csv")):
        shown = orun(*arguments, f"artifacts/{name}")
        why = f"only orun writes to artifacts/{name.partition('/')[0]}"
        assert (shown.code, shown.out, shown.err) == refusal(f"artifacts/{name}", why)
    assert (project / "artifacts/history.sqlite").read_bytes() == before
    assert orun("words.yaml", "-q", "--html", "artifacts/report.html").code == 0  # beside what is orun's


def test_a_picture_and_a_report_replace_nothing_that_a_run_reads(
    orun: CommandLine, project: Path, reading: dict[str, str]
) -> None:
    """`orun graph` replaced whatever was named; `orun report` all but what its own run has read."""
    (project / "link.svg").symlink_to("read.py")
    graph = ("graph", "pipeline.yaml", "--output")
    for name in ("pipeline.yaml", "base.yaml", "read.py", "data.txt"):
        shown = orun(*graph, name)
        assert (shown.code, shown.out, shown.err) == refusal(name, "a run reads it")
    assert orun(*graph, "link.svg").err.splitlines()[1] == "  a run reads this file, as read.py"
    assert orun("pipeline.yaml", "-q").code == 0
    assert orun("words.yaml", "-q").code == 0
    for arguments in (graph, ("report", "--html")):
        for name in ("helper.py", "hidden.txt"):
            shown = orun(*arguments, name)
            assert (shown.code, shown.out, shown.err) == refusal(name, "a run reads it")
        for name, place in (("VERSION", "VERSION"), ("out/words/count/new.html", "out"), ("runs/new.html", "runs")):
            shown = orun(*arguments, f"artifacts/{name}")
            why = f"only orun writes to artifacts/{place}"
            assert (shown.code, shown.out, shown.err) == refusal(f"artifacts/{name}", why)
    assert contents(project, reading) == reading
    assert orun(*graph, "graph.svg").out == "wrote graph.svg\n"


@pytest.mark.usefixtures("project")
def test_a_place_where_a_run_would_read_a_new_file_is_refused(orun: CommandLine) -> None:
    """The next run failed on a report in place of its baseline, its settings or a record of its remote."""
    remote = Path("remote").absolute()
    cases = {
        "words.baseline.json": "a run reads it",
        "pyproject.toml": "a run reads it",
        ".git/report.html": "a run reads the folder .git",
        "remote/actions/0": "a run reads the folder remote",
        "artifacts/.gitignore": "only orun writes to artifacts/.gitignore",
        "artifacts/objects/new.html": "only orun writes to artifacts/objects",
        f"{sys.prefix}/bin/report.html": f"a run reads the folder {sys.prefix}/bin",
        f"{sys.prefix}/pyvenv.cfg": "a run reads it",
    }
    run = ("words.yaml", "-q", "--remote", f"file://{remote}")
    for _ in range(2):
        for name, why in cases.items():
            shown = orun(*run, "--html", name)
            assert (shown.code, shown.out, shown.err) == refusal(name, why)
        assert orun(*run).code == 0
    record = next(file for file in remote.glob("actions/*/*/*") if file.is_file())
    before = record.read_bytes()
    assert orun(*run, "--html", str(record)).code == 2
    assert record.read_bytes() == before


def test_the_accepted_baseline_is_refused(orun: CommandLine, project: Path) -> None:
    assert orun("words.yaml", "-q").code == 0
    assert orun("baseline", "accept", "words.yaml").code == 0
    before = (project / "words.baseline.json").read_text()
    for arguments in (
        ("words.yaml", "--junit"),
        ("report", "--html"),
        ("history", "--csv"),
        ("graph", "words.yaml", "-o"),
    ):
        shown = orun(*arguments, "words.baseline.json")
        assert (shown.code, shown.out, shown.err) == refusal("words.baseline.json", "a run reads it")
    assert (project / "words.baseline.json").read_text() == before


def test_a_baseline_that_is_a_link(orun: CommandLine, project: Path) -> None:
    assert orun("words.yaml", "-q").code == 0
    (project / "shared").mkdir()
    (project / "words.baseline.json").symlink_to("shared/accepted.json")
    assert orun("baseline", "accept", "words.yaml").code == 0
    assert (project / "words.baseline.json").readlink() == Path("shared/accepted.json")
    assert (project / "shared" / "accepted.json").read_text().startswith("{\n")


@pytest.mark.parametrize("arguments", ["none.yaml", "words.yaml --only none", "bad.yaml", "words.yaml -qv"])
def test_a_run_that_did_not_start_leaves_the_last_report(orun: CommandLine, project: Path, arguments: str) -> None:
    (project / "bad.yaml").write_text("stages: []\n")
    (project / "report").write_text(OLD)
    before = to_signature((project / "report").stat())
    assert orun(*arguments.split(), "--html", "report", "--reports", "reports").code == 2
    assert ((project / "report").read_text(), to_signature((project / "report").stat())) == (OLD, before)
    assert not (project / "reports").exists()


@pytest.mark.parametrize("form", FORMS)
def test_links_pipes_and_devices(orun: CommandLine, project: Path, form: str) -> None:
    (project / "target").write_text(OLD)
    (project / "twin").hardlink_to(project / "target")
    (project / "link").symlink_to("target")
    assert orun("words.yaml", "-q", f"--{form}", "link").code == 0
    report = (project / "target").read_text()
    assert ("words" in report, (project / "twin").read_text()) == (True, OLD)
    assert (project / "link").readlink() == Path("target")

    os.mkfifo(project / "pipe")
    shown = orun("words.yaml", "-q", f"--{form}", "pipe")
    message = "no process reads from this pipe\n  hint: start a process that does: cat pipe &\n"
    assert (shown.code, shown.err) == (2, f"error: pipe cannot be written\n  {message}")
    with subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE, text=True) as cat:
        waiting = os.open(project / "pipe", os.O_WRONLY)
        assert orun("words.yaml", "-q", f"--{form}", "pipe").code == 0
        os.close(waiting)
        assert cat.stdout is not None
        assert "words" in cat.stdout.read()
    assert stat.S_ISFIFO((project / "pipe").stat().st_mode)


def command_line(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run orun in a process of its own, with its own descriptors."""
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        [sys.executable, "-m", "orun", *arguments], capture_output=True, text=True, check=False, **options
    )


@pytest.mark.usefixtures("project")
def test_the_output_itself() -> None:
    shown = command_line("words.yaml", "-q", "--markdown", "/dev/stdout", "--junit", "/dev/stderr")
    assert (shown.returncode, shown.stderr[:5]) == (0, "<?xml")
    assert shown.stdout.index("passed: 2 stages") < shown.stdout.index("## words")


@pytest.mark.slow
@pytest.mark.usefixtures("project")
def test_a_dash_is_the_output_itself() -> None:
    for arguments, start in (
        (("words.yaml", "-q", "--junit", "-"), "<?xml"),
        (("report", "--markdown", "-"), "## words"),
        (("history", "--csv", "-"), "pipeline,"),
        (("graph", "words.yaml", "--format", "svg", "--output", "-"), "<svg "),
    ):
        shown = command_line(*arguments)
        assert (shown.returncode, shown.stderr) == (0, "")
        assert any(line.startswith(start) for line in shown.stdout.splitlines())
        assert "wrote" not in shown.stdout
    assert not Path("-").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("project")
def test_the_reader_of_the_output_has_gone() -> None:
    assert command_line("words.yaml", "-q").returncode == 0
    reader, writer = os.pipe()
    os.close(reader)
    shown = subprocess.run(
        [sys.executable, "-m", "orun", "history", "--csv", "-"], stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert (shown.returncode, shown.stderr) == (141, b"")


@pytest.mark.slow
def test_the_output_into_a_file(project: Path) -> None:
    """It goes where the shell has put it, below what was printed before."""
    with (project / "log").open("w") as log:
        log.write("before\n")
        log.flush()
        subprocess.run(
            [sys.executable, "-m", "orun", "words.yaml", "-q", "--markdown", "/dev/stdout"], stdout=log, check=True
        )
    lines = (project / "log").read_text().splitlines()
    assert lines[0] == "before"
    assert "## words" in lines[1:]


@pytest.mark.slow
@pytest.mark.usefixtures("project")
def test_a_descriptor_of_the_shell() -> None:
    reader, writer = os.pipe()
    shown = command_line("words.yaml", "-q", "--junit", f"/dev/fd/{writer}", pass_fds=[writer])
    os.close(writer)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert os.read(reader, 5) == b"<?xml"
    os.close(reader)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("words.yaml/junit.xml", "  words.yaml is a file, not a folder\n"),
        ("folder", "  it is a folder\n  hint: Look at what is there: ls -ld folder\n"),
        ("/dev/full", f"  No space left on device\n  hint: {FULL}: df -h /dev/full\n"),
        ("/proc/junit.xml", "  No such file or directory\n  hint: Look at what is there: ls -ld /proc\n"),
        ("/dev/fd/999", "  descriptor 999 is not open\n  hint: Look at what is there: ls -ld /dev/fd\n"),
    ],
)
def test_what_cannot_be_written(orun: CommandLine, project: Path, name: str, message: str) -> None:
    (project / "folder").mkdir()
    shown = orun("words.yaml", "-q", "--junit", name)
    assert (shown.code, shown.err) == (2, f"error: {name} cannot be written\n{message}")


def test_two_reports_of_one_name(orun: CommandLine, project: Path) -> None:
    (project / "link").symlink_to("report")
    shown = orun("words.yaml", "--junit", "report", "--html", "link")
    assert (shown.code, shown.err) == (
        2,
        "error: two reports would be written to link\n  hint: give each a file of its own\n",
    )
    assert orun("words.yaml", "--junit", "").err == (
        "error: invalid value for '--junit': the name is empty\n  hint: to see the options: orun run --help\n"
    )


def test_a_step_summary_that_is_a_report_too(orun: CommandLine, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project / "summary.md"))
    assert orun("words.yaml", "-q", "--markdown", "summary.md").code == 0
    assert (project / "summary.md").read_text().count("## words") == 1


def test_history_replaces_nothing_that_a_run_has_read(
    orun: CommandLine, project: Path, reading: dict[str, str]
) -> None:
    assert orun("pipeline.yaml", "-q").code == 0
    (project / "link.csv").symlink_to("read.py")
    for name in ("pipeline.yaml", "base.yaml", "read.py", "data.txt", "hidden.txt", "helper.py"):
        shown = orun("history", "--csv", name)
        assert (shown.code, shown.out, shown.err) == refusal(name, "a run reads it")
    assert orun("history", "--csv", "link.csv").err.splitlines()[1] == ("  a run reads this file, as read.py")
    assert contents(project, reading) == reading
    (project / "points.csv").write_text("old")
    assert orun("history", "--csv", "points.csv").code == 0
    assert (project / "points.csv").read_text().startswith("pipeline,")
    os.mkfifo(project / "pipe")
    assert orun("history", "--csv", "pipe").code == 2


def test_a_reader_sees_the_end_of_a_run_that_did_not_start(orun: CommandLine, project: Path) -> None:
    os.mkfifo(project / "pipe")
    reader = os.open(project / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert orun("none.yaml", "--html", "pipe").code == 2
    assert os.read(reader, 1) == b""
    os.close(reader)
