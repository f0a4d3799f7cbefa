"""The remote of a run: command line, environment, pyproject.toml; and what is refused there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from orun.cli.main import main
from orun.environment import distributions
from orun.environment.env_vars import SHARED_KEY, SIGNING_KEY
from orun.errors import UsageError
from orun.remote.options import Remote
from orun.remote.settings import Settings, resolve
from tests.project import Project, install_hint
from tests.remote.support import traffic

LONG = f"{'x' * 160} ... {'x' * 160}"
FIELDS = "expected one of url, mode, required, trusted-keys"
A_TABLE = '  hint: [tool.orun.remote], and on the line below: url = "s3://bucket/path"'
PEM = "-----BEGIN PUBLIC KEY-----\nabc\n-----END PUBLIC KEY-----\n"


def test_the_command_line_goes_before_the_environment_and_the_project(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    assert resolve(Remote(), tmp_path, {}) is None
    file.write_text("[project]\n")
    assert resolve(Remote(), tmp_path, {}) is None
    file.write_text('[tool.orun.remote]\nurl = "s3://bucket/a"\nmode = "read"\nrequired = true\n')
    assert resolve(Remote(), tmp_path, {}) == Settings("s3://bucket/a", "read", required=True)
    environment = {"ORUN_REMOTE": "gs://bucket", "ORUN_REMOTE_MODE": "read-write"}
    assert resolve(Remote(), tmp_path, environment) == Settings("gs://bucket", "read-write", required=True)
    named = Remote("az://container", "read")
    assert resolve(named, tmp_path, environment) == Settings("az://container", "read", required=True)
    assert resolve(Remote("off"), tmp_path, environment) is None
    assert resolve(Remote(), tmp_path, {"ORUN_REMOTE": "off"}) is None


def test_what_cannot_be_written_is_read(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.orun.remote]\ntrusted-keys = ["a.pem"]\n')
    (tmp_path / "a.pem").write_text(PEM + PEM)
    trusted = (PEM, PEM)
    assert resolve(Remote("s3://bucket"), tmp_path, {}) == Settings("s3://bucket", "read", trusted=trusted)
    for name in (SHARED_KEY, SIGNING_KEY):
        settings = resolve(Remote("s3://bucket"), tmp_path, {name: "x"})
        assert settings == Settings("s3://bucket", "read-write", trusted=trusted)
    with pytest.raises(UsageError) as caught:
        resolve(Remote("s3://bucket", "read-write"), tmp_path, {})
    assert str(caught.value) == (
        "nothing can be written to the remote s3://bucket\n"
        "  its readers want signed results, and ORUN_REMOTE_SIGNING_KEY is not set\n"
        "  hint: --remote-mode read"
    )
    assert resolve(Remote("https://host/path"), tmp_path / "none", {}) == Settings("https://host/path", "read")


@pytest.mark.parametrize(
    ("remote", "message"),
    [
        (
            Remote("ftp://host"),
            (
                "no remote can be at 'ftp://host'\n"
                "  it must begin with one of file://, s3://, gs://, az://, http://, https://\n"
                "  hint: --remote s3://bucket/path"
            ),
        ),
        (
            Remote("/mnt/orun"),
            (
                "no remote can be at '/mnt/orun'\n"
                "  it must begin with one of file://, s3://, gs://, az://, http://, https://\n"
                "  hint: --remote file:///mnt/orun"
            ),
        ),
        (
            Remote("/mnt/project/../orun"),
            (
                "no remote can be at '/mnt/project/../orun'\n"
                "  it must begin with one of file://, s3://, gs://, az://, http://, https://\n"
                "  hint: --remote file:///mnt/orun"
            ),
        ),
        (
            Remote("https://me:secret@host/path?token=secret"),
            (
                "the URL of a remote holds a name, password or query, and would be shown and stored\n"
                "  hint: give credentials in the environment, and --remote https://host/path"
            ),
        ),
        (
            Remote("file://mnt/orun"),
            "file://mnt/orun is not the URL of a folder\n  hint: three slashes and the whole path: file:///mnt/orun",
        ),
        (Remote("s3://"), "s3:// names no place\n  hint: s3://NAME/path"),
        (
            Remote("http://host", "read-write"),
            "nothing can be written to the remote http://host\n  a web server is only read\n  hint: --remote-mode read",
        ),
        (Remote("s3://b", "write"), "'write' is no mode of a remote\n  expected read or read-write"),
        (Remote(mode="read"), "--remote-mode without a remote\n  hint: name one: --remote URL, or ORUN_REMOTE"),
        (Remote(required=True), "--remote-required without a remote\n  hint: name one: --remote URL, or ORUN_REMOTE"),
    ],
)
def test_a_remote_that_cannot_be(tmp_path: Path, remote: Remote, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(remote, tmp_path, {})
    assert str(caught.value) == message


def test_the_variable_of_a_mode_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(Remote("s3://b"), tmp_path, {"ORUN_REMOTE_MODE": "readonly"})
    assert str(caught.value) == "ORUN_REMOTE_MODE: 'readonly' is no mode of a remote\n  expected read or read-write"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("orun = [", "{file} is not TOML\n  "),
        (f"orun = {'[' * 100_000}", "{file} cannot be read\n  its lists and tables are nested too deep"),
        (f"orun{'.a' * 100} = 1", "{file} cannot be read\n  a key has more than 100 parts with dots between them"),
        (f"orun = {'1' * 5000}", "{file} is not TOML\n  "),
        *(
            (text, f"{path} in {{file}} must be a table, not {shown}\n{A_TABLE}")
            for text, path, shown in (
                ('tool = "orun"', "tool", "'orun'"),
                ("[tool]\norun = 5", "tool.orun", "5"),
                ("[[tool.orun]]\nremote = 5", "tool.orun", "[{{'remote': 5}}]"),
                ("[tool.orun]\nremote = 5", "tool.orun.remote", "5"),
                ('[tool.orun]\nremote = "s3://b"', "tool.orun.remote", "'s3://b'"),
                ("[tool.orun]\nremote = [1, 2, 3, 4, 5, 6, 7, 8]", "tool.orun.remote", "[1, 2, 3, 4, 5, 6, ...]"),
            )
        ),
        (
            f'[tool.orun.remote]\nmode = "{"x" * 9000}"\nurl = "s3://b"',
            f"{{file}}: '{LONG}' is no mode of a remote\n  expected read or read-write",
        ),
        (f"[tool.orun.remote]\n{'x' * 9000} = 1", f"[tool.orun.remote] in {{file}} has no field '{LONG}'\n  {FIELDS}"),
        (
            f'[tool.orun.remote]\nurl = "{"x" * 9000}"',
            f"no remote can be at '{LONG}'\n  a URL has at most 2000 letters",
        ),
        ('[tool.orun]\nremot = "s3://b"', "[tool.orun] in {file} has no field 'remot'\n  did you mean remote?"),
        ('[tool.orun]\nstore = "x"', "[tool.orun] in {file} has no field 'store'\n  expected on or remote"),
        ("[tool.orun.remote]\nurl.a = 3", "url of [tool.orun.remote] in {file} must be a text, not a table"),
        (
            '[tool.orun.remote]\nurl = "s3://["',
            "no remote can be at 's3://['\n  Invalid IPv6 URL\n  hint: --remote s3://bucket/path",
        ),
        ("[tool.orun.remote]\nurl = 3", "url of [tool.orun.remote] in {file} must be a text, not 3"),
        (
            '[tool.orun.remote]\nrequired = "no"',
            "required of [tool.orun.remote] in {file} must be true or false, not 'no'",
        ),
        (
            '[tool.orun.remote]\nurls = "s3://b"',
            "[tool.orun.remote] in {file} has no field 'urls'\n  did you mean url?",
        ),
        (
            "[tool.orun.remote]\ntrusted-keys = [1]",
            "trusted-keys of [tool.orun.remote] in {file} must be a list of files, not [1]",
        ),
        (
            '[tool.orun.remote]\nurl = "s3://b"\ntrusted-keys = ["empty"]',
            (
                "the trusted key {folder}/empty holds no public key in PEM\n"
                "  hint: openssl pkey -in orun-signing.pem -pubout"
            ),
        ),
        (
            '[tool.orun.remote]\nurl = "s3://b"\ntrusted-keys = ["no key"]',
            "cannot read the trusted key {folder}/no key\n  No such file or directory\n  hint: ls -l '{folder}/no key'",
        ),
    ],
)
def test_a_project_file_that_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text(text)
    (tmp_path / "empty").touch()
    with pytest.raises(UsageError) as caught:
        resolve(Remote(), tmp_path, {})
    expected = message.format(file=file, folder=tmp_path)
    assert str(caught.value).startswith(expected) if message.endswith("  ") else str(caught.value) == expected


@pytest.mark.parametrize("lacking", ["obstore", "cryptography"])
def test_a_missing_package_is_said_before_anything_starts(
    first: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], lacking: str
) -> None:
    monkeypatch.setattr(distributions, "find", lambda name, *_: None if name == lacking else (name, "1"))
    monkeypatch.setenv(SIGNING_KEY, "a key")
    arguments = [str(first.folder / "pipeline.yaml"), "--store", str(first.store), "--remote", "s3://bucket"]
    assert main(arguments) == 2
    assert capsys.readouterr().err == (
        f"error: the remote s3://bucket needs {lacking}, which is not installed\n  hint: {install_hint('remote')}\n"
    )
    assert not any((first.store / "runs").iterdir())


def test_the_command_line_names_a_remote(tmp_path: Path, first: Project, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bucket").mkdir()
    arguments = [str(first.folder / "pipeline.yaml"), "--store", str(first.store)]
    assert (
        main([*arguments, "--remote", f"file://{tmp_path}/bucket", "--remote-mode", "read-write", "--remote-required"])
        == 0
    )
    assert f"info: remote file://{tmp_path}/bucket: 2 pushed (" in capsys.readouterr().out


def test_a_store_is_no_remote(first: Project) -> None:
    first.run(to=["make"])
    with pytest.raises(UsageError) as caught:
        first.run(remote=first.store.as_uri())
    assert str(caught.value) == (
        f"file://{first.store} is a local store\n"
        "  a remote is a folder of its own\n"
        f"  hint: --remote file://{first.store}-remote"
    )


def test_a_remote_named_by_the_environment_or_the_project_is_noticed(
    tmp_path: Path, first: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that has nothing to do, and would pass for done, gives what it has to a remote that is new."""
    first.run(to=["make"])
    first.run()
    monkeypatch.setenv("ORUN_REMOTE", f"file://{tmp_path}/bucket")
    first.run()
    assert traffic(first) == "2 pushed"
    monkeypatch.delenv("ORUN_REMOTE")
    first.run()
    first.write("pyproject.toml", f'[tool.orun.remote]\nurl = "file://{tmp_path}/another"\n')
    first.run()
    assert traffic(first) == "2 pushed"


def test_only_a_run_that_asks_the_remote_imports_obstore(tmp_path: Path, first: Project) -> None:
    arguments = [
        str(first.folder / "pipeline.yaml"),
        "--store",
        str(first.store),
        "--remote",
        f"file://{tmp_path}/bucket",
    ]
    code = "import sys; from orun.cli.main import main; main(sys.argv[1:]); print(*sorted(sys.modules))"
    modules = []
    for _ in range(2):
        command = [sys.executable, "-c", code, *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        modules.append(set(ended.stdout.splitlines()[-1].split()))
    assert "obstore" in modules[0]
    assert "cryptography" not in modules[0]
    assert not modules[1] & {"obstore", "concurrent.futures", "orun.remote.sync"}, "nothing was to do"
