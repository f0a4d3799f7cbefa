"""Secrets: stages are told them, and no store, output, report, log or remote holds a value or a digest of one."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest
from blake3 import blake3

import orun
from orun.cli.main import main
from orun.core.events import Event, Notice, StageProgress
from orun.environment.secret_variables import Secrets
from orun.executors.masking import Mask
from tests.facts import describe_reasons, named
from tests.project import Project, built, outcomes

VALUE = "hunter2-of-the-north"
GUESSED = "7f3b-guessed-by-name"
SETTING = "a-plain-setting-9"
PIPELINE = """
name: text
secrets: [TEST_DSN]
stages:
  ask: {uses: ./ask.py:ask}
  fail: {uses: ./ask.py:fail}
"""
CODE = """
import os
import sys

from orun import Metric, stage
from orun.errors import StageFailed


@stage(inputs={}, output="files")
def ask(context):
    \"\"\"Use secrets, and say them at every turn.\"\"\"
    said = os.environ.get("TEST_DSN", "none")
    print("connecting to", said)
    print(os.environ.get("MY_API_TOKEN"), file=sys.stderr, flush=True)
    context.progress(1, 2, f"asked {said}")
    context.note(f"asked {said}")
    (context.output / "text").write_text(f"{len(said)} {len(os.environ['TEST_SCALE'])}")
    return {f"of {said}": Metric(1.0)}


@stage(inputs={}, output="files")
def fail(context):
    secret = os.environ["TEST_DSN"]
    raise StageFailed("fail", f"no way to {secret}", hint=f"ask {secret}", settings={"dsn": secret})
"""
WARNING = (
    "ask looks up MY_API_TOKEN, which is taken for a secret by its name: no result depends on its value; "
    "list it under `secrets` of the file, or under `env` of the stage if its result depends on it"
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("TEST_DSN", VALUE)
    monkeypatch.setenv("MY_API_TOKEN", GUESSED)
    monkeypatch.setenv("TEST_SCALE", SETTING)
    for name in ("ORUN_REMOTE_KEY", "ORUN_REMOTE_SIGNING_KEY", "ORUN_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    project = Project.make(tmp_path / "project", PIPELINE)
    project.write("ask.py", CODE)
    return project


def digests(value: str, name: str = "") -> list[bytes]:
    """A value and what could be tried in its place, as text and as bytes."""
    data, named = value.encode(), f"{name}={value}".encode()
    raw = [blake3(data).digest(), hashlib.sha256(data).digest(), hashlib.blake2b(data).digest()]
    raw.append(blake3(named, derive_key_context="orun environment variable").digest())
    short = [digest.hex()[:16].encode() for digest in raw]  # the beginning of a digest tells as much
    return [data, data[::-1], base64.b64encode(data), data.hex().encode(), *raw, *short]


def holders(folder: Path, *wanted: bytes) -> list[str]:
    """The files below a folder that hold one of these, or are called so."""
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [
        str(path.relative_to(folder))
        for path in paths
        if any(secret in path.read_bytes() or secret in str(path).encode() for secret in wanted)
    ]


def notices(project: Project) -> list[str]:
    return [event.text for event in project.events if isinstance(event, Notice) and event.level == "warning"]


def test_no_file_holds_a_secret_or_a_digest_of_one(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    remote, reports = tmp_path / "remote", tmp_path / "reports"
    file, store = project.folder / "pipeline.yaml", project.store
    monkeypatch.setenv("ORUN_REMOTE_KEY", "a shared key of many letters")
    options = ["--store", str(store), "--remote", f"file://{remote}", "--reports", str(reports), "-k", "-v"]
    assert main(["run", str(file), *options]) == 3
    assert main(["run", str(file), *options, "--json"]) == 3
    assert main(["explain", str(file), "ask", "--store", str(store)]) == 0
    assert main(["plan", str(file), "--store", str(store), "--json"]) == 0
    printed = capsys.readouterr()
    wanted = [*digests(VALUE, "TEST_DSN"), *digests(GUESSED, "MY_API_TOKEN")]
    assert not [secret for secret in wanted if secret in (printed.out + printed.err).encode()]
    assert holders(tmp_path, *wanted) == []
    assert holders(remote, b'"TEST_DSN":"secret"') != []
    assert holders(remote, *digests(SETTING, "TEST_SCALE")) == []
    assert "no way to ***" in printed.err + printed.out


def test_what_stages_print_and_say_is_masked(project: Project) -> None:
    result = project.run(keep_going=True)
    assert outcomes(result) == {"ask": "built", "fail": "failed"}
    log = (result.folder / "logs" / "ask.log").read_text()
    assert log == "connecting to ***\n***\n"
    assert [event.unit for event in project.events if isinstance(event, StageProgress)] == ["asked ***"]
    assert result["ask"].notes == ("asked ***",)
    assert list(result["ask"].metrics) == ["of ***"]
    failure = result["fail"].failure
    assert failure is not None
    assert (failure.problem, failure.advice) == ("no way to ***", "ask ***")
    assert failure.hint.splitlines()[0] == "ask ***"
    assert failure.settings == {"dsn": "***"}
    assert VALUE not in (result.folder / "logs" / "fail.log").read_text()
    assert project.text("ask") == f"{len(VALUE)} {len(SETTING)}"  # it was told the value


def test_the_log_of_a_stage_that_does_not_return_is_masked(project: Project) -> None:
    project.edit("ask.py", "raise StageFailed(", "print(os.environ['TEST_DSN'])\n    os._exit(3)\n    str(")
    result = project.run(only=["fail"])
    assert result["fail"].failure is not None
    assert (result.folder / "logs" / "fail.log").read_text() == "***\n"
    assert holders(project.store, VALUE.encode()) == []


def test_the_log_of_a_stage_that_is_interrupted_is_masked(project: Project) -> None:
    waits = "print(os.environ['TEST_DSN'])\n    context.progress(1, 2, '')\n    __import__('time').sleep(60)\n    str("
    project.edit("ask.py", "raise StageFailed(", waits)

    def interrupt(event: Event) -> None:
        if isinstance(event, StageProgress):
            raise KeyboardInterrupt

    with pytest.raises(orun.RunInterrupted) as stopped:
        orun.run(project.folder / "pipeline.yaml", store=project.store, only=["fail"], on_event=interrupt)
    assert stopped.value.result.exit_code == 130
    assert (stopped.value.result.folder / "logs" / "fail.log").read_text() == "***\n"
    assert holders(project.store, VALUE.encode()) == []


def test_the_text_of_a_file_with_a_secret_is_not_kept(project: Project) -> None:
    project.write("login.json", f'{{"password": "{VALUE}"}}')
    project.edit("ask.py", "import sys\n", "import sys\nLOGIN = open(f'{__file__[:-6]}login.json').read()\n")
    result = project.run(to=["ask"])
    assert "read login.json" in named(result["ask"].inputs)
    assert holders(project.store, VALUE.encode()) == []


def test_a_new_value_of_a_secret_changes_nothing(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.run(to=["ask"])
    monkeypatch.setenv("TEST_DSN", "another-value")
    monkeypatch.delenv("MY_API_TOKEN")
    assert built(project.run(to=["ask"])) == []
    monkeypatch.setenv("TEST_SCALE", "2")
    result = project.run(to=["ask"])
    assert describe_reasons(result["ask"].reasons) == ("environment variable TEST_SCALE changed (read by the stage)",)
    assert named(result["ask"].inputs)["looked up TEST_DSN"] == "secret"


def test_a_run_with_nothing_to_do_is_recognized(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.edit("pipeline.yaml", "  fail: {uses: ./ask.py:fail}\n", "")
    assert not project.run().repeats
    monkeypatch.setenv("MY_API_TOKEN", "rotated-since")
    assert project.run().repeats


def test_one_that_is_undeclared_is_named_once(project: Project) -> None:
    project.edit("pipeline.yaml", "  fail: {uses: ./ask.py:fail}\n", "  again: {uses: ./ask.py:ask, needs: [ask]}\n")
    project.edit("pipeline.yaml", "needs: [ask]", "env: [TEST_OTHER]")
    project.run(jobs=1)
    assert notices(project) == [WARNING]
    project.run()
    assert notices(project) == []
    project.edit("pipeline.yaml", "[TEST_DSN]", "[TEST_DSN, MY_API_TOKEN]")
    project.run(force=["ask"])
    assert notices(project) == []


def test_one_under_env_is_no_secret(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.run(to=["ask"])
    project.edit("pipeline.yaml", "{uses: ./ask.py:ask}", "{uses: ./ask.py:ask, env: [MY_API_TOKEN]}")
    result = project.run(to=["ask"])
    assert describe_reasons(result["ask"].reasons) == ("environment variable MY_API_TOKEN changed",)
    assert notices(project) == []
    assert GUESSED in (result.folder / "logs" / "ask.log").read_text()
    monkeypatch.setenv("MY_API_TOKEN", "another")
    assert describe_reasons(project.run(to=["ask"])["ask"].reasons) == ("environment variable MY_API_TOKEN changed",)


def test_one_that_becomes_a_secret_or_ceases_to_be(project: Project) -> None:
    project.run(to=["ask"])
    project.edit("pipeline.yaml", "[TEST_DSN]", "[TEST_DSN, TEST_SCALE]")
    result = project.run(to=["ask"])
    assert describe_reasons(result["ask"].reasons) == (
        "environment variable TEST_SCALE is a secret now (read by the stage)",
    )
    project.edit("pipeline.yaml", "[TEST_DSN, TEST_SCALE]", "[TEST_SCALE]")
    result = project.run(to=["ask"])
    assert describe_reasons(result["ask"].reasons) == (
        "environment variable TEST_DSN is no secret any more (read by the stage)",
    )


def test_no_stage_sees_a_secret_of_orun_s_own(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    own = ["ORUN_REMOTE_KEY", "ORUN_REMOTE_SIGNING_KEY", "ORUN_AGENT_TOKEN", "RAY_AUTH_TOKEN"]
    for name in own:
        monkeypatch.setenv(name, "a secret of many letters")
    project.edit("ask.py", 'os.environ.get("MY_API_TOKEN")', f"[os.environ.get(name) for name in {own}]")
    result = project.run(to=["ask"])
    assert (result.folder / "logs" / "ask.log").read_text() == "connecting to ***\n[None, None, None, None]\n"
    assert notices(project) == []


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("HF_TOKEN", True), ("token", True), ("Api_Key", True), ("KEY", True), ("SECRET", True), ("APIKEY", True),
        ("DB_PASSWORD_FILE", True), ("PGPASSWORD", True), ("AWS_SECRET_ACCESS_KEY", True), ("AWS_ACCESS_KEY_ID", True),
        ("GOOGLE_APPLICATION_CREDENTIALS", True), ("SSH_PASSPHRASE", True), ("ORUN_REMOTE_SIGNING_KEY", True),
        ("MONKEY", False), ("TOKENIZERS_PARALLELISM", False), ("KEYBOARD", False), ("SECRETARY", False),
        ("TOKENS", False), ("PWD", False), ("DATABASE_URL", False),
    ],
)  # fmt: skip
def test_names_that_look_like_secrets(name: str, secret: bool) -> None:
    assert (name in Secrets()) is secret
    own = name in ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "GOOGLE_APPLICATION_CREDENTIALS")
    own = own or name.startswith("ORUN_")
    assert Secrets().is_guess(name) is (secret and not own)
    assert name in Secrets(declared=frozenset({name}))
    assert (name in Secrets(settings=frozenset({name}))) is own


def test_forms_of_a_secret_that_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", "-----BEGIN-----\nabc/def+gh\n=x\n")
    monkeypatch.setenv("TEST_TOKEN", 'p"a/ss wörd')
    monkeypatch.setenv("SHORT_TOKEN", "12345")
    mask = Mask.of(Secrets())
    assert mask.hide_in_text("got abc/def+gh and 12345, =x") == "got *** and 12345, =x"
    assert mask.hide_in_text('p"a/ss wörd p%22a%2Fss%20w%C3%B6rd "p\\"a/ss wörd"') == '*** *** "***"'
    assert mask.hide_in_text("-----BEGIN-----\nabc/def+gh\n=x\n") == "***"


def test_the_file_s_list_is_replaced_by_one_that_is_laid_over_it(project: Project) -> None:
    project.write("over.yaml", "extends: pipeline.yaml\nsecrets: [TEST_SCALE]\n")
    assert orun.load(project.folder / "over.yaml").secrets == ("TEST_SCALE",)
    assert orun.load(project.folder / "pipeline.yaml").secrets == ("TEST_DSN",)
