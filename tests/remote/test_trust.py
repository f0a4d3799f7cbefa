"""Whose results are believed: HMAC by a shared key, Ed25519 by public keys, and what an offer must be."""

from __future__ import annotations

import hmac
import json
import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

import orun
from orun.core.serialization import encode
from orun.environment.env_vars import SHARED_KEY, SIGNING_KEY
from orun.errors import UsageError
from orun.planning import cache_key as keys_of_stages
from orun.planning.plan import Step
from orun.remote.envelope import RefusedError, open_envelope, sign
from orun.remote.trust import ED25519, HMAC, Keyring, read_keyring
from orun.remote.validation import validate_file_list, validate_record
from orun.store.checksummed_json import encode_canonical
from tests.facts import components
from tests.project import Project, built
from tests.remote.support import contents, machine, named, notices, traffic, write
from tests.store.support import action

RECORD = b'{"key":"1"}'
SHARED = "a key of sixteen letters"


def pem(key: Ed25519PrivateKey) -> tuple[str, str]:
    """The private and the public half as texts."""
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return private.decode(), public.decode()


def trust(project: Project, public: str, url: str) -> None:
    """Let a project use a remote, and believe what the holder of a key has signed there."""
    project.write("keys.pem", public)
    project.write("pyproject.toml", f'[tool.orun.remote]\nurl = "{url}"\ntrusted-keys = ["keys.pem"]\n')


def test_without_keys_every_record_is_believed() -> None:
    assert open_envelope(sign(RECORD, Keyring(b"x" * 16)), Keyring()) == RECORD
    assert open_envelope(sign(RECORD, Keyring()), Keyring()) == RECORD


@pytest.mark.parametrize("method", [HMAC, ED25519])
def test_a_record_is_believed_by_its_signature(method: str) -> None:
    first, two = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    writer = Keyring(secret=b"k" * 16) if method == HMAC else Keyring(private=first)
    reader = Keyring(secret=b"k" * 16) if method == HMAC else Keyring(trusted=(two.public_key(), first.public_key()))
    stranger = Keyring(secret=b"q" * 16) if method == HMAC else Keyring(trusted=(two.public_key(),))
    signed = sign(RECORD, writer)
    assert list(json.loads(signed.partition(b"\n")[0])["signatures"]) == [method]
    assert open_envelope(signed, reader) == RECORD
    wrong = "its signature is not by a key that is trusted here"
    for data, who, why in (
        (signed, stranger, wrong),
        (signed.replace(b'"1"', b'"2"'), reader, wrong),
        (sign(RECORD, Keyring()), reader, "it is not signed"),
        (signed.replace(method.encode(), b"another"), reader, wrong),
        (b'{"format":1,"signatures":{"%s":"\\u00e9"}}\n{}' % method.encode(), reader, wrong),
        (b'{"format":1,"signatures":{"%s":"\\ud800"}}\n{}' % method.encode(), reader, wrong),
    ):
        with pytest.raises(RefusedError) as caught:
            open_envelope(data, who)
        assert str(caught.value) == why


@pytest.mark.parametrize("method", [HMAC, ED25519])
def test_a_signature_of_the_same_text_that_was_made_for_another_purpose(method: str) -> None:
    private = Ed25519PrivateKey.generate()
    reader = Keyring(secret=b"k" * 16) if method == HMAC else Keyring(trusted=(private.public_key(),))
    bare = hmac.digest(b"k" * 16, RECORD, "sha256") if method == HMAC else private.sign(RECORD)
    assert reader.verify(RECORD, {method: bare.hex()}) == "its signature is not by a key that is trusted here"


@pytest.mark.parametrize(
    "data",
    [b"", b"\n", b"[1]\n{}", b"\xff\n", b"[" * 100_000, b'{"format":1,"signatures":{"a":1}}\n{}', b'{"format":1}\n'],
)
def test_an_envelope_that_is_none(data: bytes) -> None:
    with pytest.raises(RefusedError, match="it is not a record of orun"):
        open_envelope(data, Keyring())


def test_an_envelope_of_another_format() -> None:
    with pytest.raises(RefusedError, match="it has format 2, and this version of orun reads 1"):
        open_envelope(b'{"format":2,"signatures":{}}\n{}', Keyring())


def test_keys_of_the_environment(tmp_path: Path) -> None:
    private, public = pem(Ed25519PrivateKey.generate())
    (tmp_path / "key.pem").write_text(private)
    for value in (private, str(tmp_path / "key.pem")):
        writer = read_keyring((), {SIGNING_KEY: value, SHARED_KEY: SHARED})
        assert open_envelope(sign(RECORD, writer), read_keyring((public,), {})) == RECORD
        assert open_envelope(sign(RECORD, writer), read_keyring((), {SHARED_KEY: SHARED})) == RECORD


@pytest.mark.parametrize("kind", ["pipe", "device", "sparse"])
def test_a_key_that_cannot_end_is_not_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "key.pem"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.touch()
        os.truncate(path, 30 << 30)
    with pytest.raises(UsageError, match=f"^{SIGNING_KEY} is neither a key in PEM nor a file that holds one\n"):
        read_keyring((), {SIGNING_KEY: str(path)})


def test_keys_that_are_none() -> None:
    other = generate_private_key(SECP256R1())
    curve = other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    curve_public = other.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    make = "\n  hint: openssl genpkey -algorithm ed25519 -out orun-signing.pem"
    show = "\n  hint: openssl pkey -in orun-signing.pem -pubout"
    lines = "".join(f"\n  {line}" for line in curve_public.splitlines())
    for trusted, environment, message in (
        ((), {SIGNING_KEY: "no such file"}, f"{SIGNING_KEY} is neither a key in PEM nor a file that holds one{make}"),
        (
            (),
            {SIGNING_KEY: "-----BEGIN PRIVATE KEY-----\nsecret"},
            f"{SIGNING_KEY} does not hold a private key in PEM without a password{make}",
        ),
        ((), {SIGNING_KEY: curve}, f"{SIGNING_KEY} is not an Ed25519 key{make}"),
        (("junk",), {}, f"a trusted key of the remote is not a public key in PEM\n  junk{show}"),
        ((curve_public,), {}, f"a trusted key of the remote is not an Ed25519 key{lines}{show}"),
        (
            (),
            {SHARED_KEY: "short"},
            (
                f"{SHARED_KEY} is too short to keep anybody out: it needs 16 characters\n"
                f"  hint: export {SHARED_KEY}=$(openssl rand -hex 32)"
            ),
        ),
    ):
        with pytest.raises(UsageError) as caught:
            read_keyring(trusted, environment)
        assert str(caught.value) == message


def test_an_unsigned_or_changed_result_is_refused_where_keys_are_set(
    tmp_path: Path, first: Project, other: Project, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first.run(remote=folder, to=["make"])  # unsigned
    monkeypatch.setenv(SHARED_KEY, SHARED)
    first.run(remote=folder)
    (changed,) = [name for name in named(folder, "actions/") if b'"stage":"upper"' in contents(folder)[name]]
    write(folder, changed, contents(folder)[changed].replace(b'"seconds":', b'"seconds":1'))
    assert built(other.run(remote=folder)) == ["upper"]  # make is there signed too
    assert notices(other) == [
        f"upper: refused from the remote: {changed}: its signature is not by a key that is trusted here"
    ]
    third = machine(tmp_path, "third")
    assert (built(third.run(remote=folder)), notices(third)) == ([], [])  # the signed ones stand after these
    assert SHARED.encode() not in b"".join(contents(folder).values())


def test_a_key_that_is_empty_is_said(
    first: Project, other: Project, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a secret of a CI system is in a pull request from a fork."""
    monkeypatch.setenv(SHARED_KEY, "")
    first.run(remote=folder)
    other.run(remote=orun.Remote(folder, mode="read"))
    message = "ORUN_REMOTE_KEY is empty: what is in the remote is believed, whoever wrote it"
    assert (notices(first), notices(other)) == ([f"{message}, and what is pushed is unsigned"], [message])
    other.run(remote=orun.Remote(folder, mode="read"))  # nothing to do, and nothing asked
    assert notices(other) == []


def test_readers_with_public_keys_read_what_the_signer_wrote(
    tmp_path: Path, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    private, public = pem(Ed25519PrivateKey.generate())
    first, other, stranger = (machine(tmp_path, name) for name in ("one", "other", "stranger"))
    for project in (first, other):
        trust(project, public, folder)
    trust(stranger, pem(Ed25519PrivateKey.generate())[1], folder)
    monkeypatch.setenv(SIGNING_KEY, private)
    assert built(first.run()) == ["make", "upper"]
    monkeypatch.delenv(SIGNING_KEY)
    before = contents(folder)
    assert built(other.run()) == []
    assert built(stranger.run()) == ["make", "upper"]
    assert [text.rpartition(": ")[2] for text in notices(stranger)] == [
        "its signature is not by a key that is trusted here"
    ] * 2
    assert contents(folder) == before  # who cannot sign, writes nothing


@pytest.mark.slow
def test_who_is_given_a_key_pushes_what_was_built_without(
    first: Project, other: Project, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run with the key has nothing to do, and is not the one that is remembered."""
    private, public = pem(Ed25519PrivateKey.generate())
    for project in (first, other):
        trust(project, public, folder)
    assert (built(first.run()), built(first.run())) == (["make", "upper"], [])
    monkeypatch.setenv(SIGNING_KEY, private)
    assert built(first.run()) == []
    monkeypatch.delenv(SIGNING_KEY)
    assert built(other.run()) == []


@pytest.mark.slow
def test_who_exchanges_the_keys_pushes_again_what_is_there(
    first: Project, other: Project, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run does so by itself, as the file of the public key has changed."""
    for private, public in (pem(Ed25519PrivateKey.generate()) for _ in range(2)):
        monkeypatch.setenv(SIGNING_KEY, private)
        for project in (first, other):
            trust(project, public, folder)
        first.run()
        assert traffic(first) == "2 pushed"
        assert first.run().repeats
    monkeypatch.delenv(SIGNING_KEY)
    assert (built(other.run()), notices(other)) == ([], [])


@pytest.mark.slow
def test_who_exchanges_the_private_key_alone_pushes_again_with_a_selection(
    first: Project, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No digest of a secret is kept, so only a run that plans notices: `--to` the last stage."""
    pairs = [pem(Ed25519PrivateKey.generate()) for _ in range(2)]
    trust(first, "".join(public for _, public in pairs), folder)
    for private, _ in pairs:
        monkeypatch.setenv(SIGNING_KEY, private)
        first.run()
    assert first.run().repeats
    assert (built(first.run(to=["upper"])), traffic(first)) == ([], "2 pushed")


@pytest.mark.slow
@pytest.mark.parametrize("method", [HMAC, ED25519])
def test_who_begins_to_sign_pushes_again_what_is_there_unsigned(
    first: Project, other: Project, folder: str, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    private, public = pem(Ed25519PrivateKey.generate())
    first.run(remote=folder)
    if method == HMAC:
        monkeypatch.setenv(SHARED_KEY, SHARED)
    else:
        monkeypatch.setenv(SIGNING_KEY, private)
        for project in (first, other):
            trust(project, public, folder)
    assert (built(first.run(remote=folder)), traffic(first)) == ([], "2 pushed")
    first.edit("pipeline.yaml", "name: text", "name: text # changed")  # planned anew
    assert (built(first.run(remote=folder)), traffic(first)) == ([], "")
    assert (built(other.run(remote=folder)), notices(other)) == ([], [])


def test_a_signing_key_that_no_reader_trusts_is_said(
    first: Project, other: Project, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a run that may push, unless a shared key signs as well."""
    for project in (first, other):
        trust(project, pem(Ed25519PrivateKey.generate())[1], folder)
    monkeypatch.setenv(SIGNING_KEY, pem(Ed25519PrivateKey.generate())[0])
    first.run()
    (untrusted,) = notices(first)
    assert untrusted == (
        "ORUN_REMOTE_SIGNING_KEY belongs to none of the project's trusted-keys, so readers refuse what is pushed; "
        "list its public key there: openssl pkey -in orun-signing.pem -pubout"
    )
    monkeypatch.setenv(SHARED_KEY, SHARED)
    other.run()
    assert SIGNING_KEY not in "".join(notices(other))
    monkeypatch.delenv(SHARED_KEY)
    other.run(remote=orun.Remote(mode="read"))
    assert SIGNING_KEY not in "".join(notices(other))


def test_a_bad_key_is_an_error_before_a_stage_starts(
    first: Project, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SHARED_KEY, "short")
    with pytest.raises(UsageError, match="ORUN_REMOTE_KEY is too short"):
        first.run(remote=folder)
    assert not any((first.store / "actions").iterdir())


READS = """
import os

from orun import stage


@stage(inputs={}, output="files")
def leaks(context):
    found = [name for name in ("ORUN_REMOTE_KEY", "ORUN_REMOTE_SIGNING_KEY", "HOME") if name in os.environ]
    (context.output / "text").write_text(" ".join(found))
"""


def test_no_stage_sees_the_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = machine(tmp_path, "one", "name: text\nstages: {leaks: {uses: ./leaks.py:leaks}}\n")
    project.write("leaks.py", READS)
    for name in (SHARED_KEY, SIGNING_KEY, "HOME"):
        monkeypatch.setenv(name, SHARED)
    project.run()
    assert project.text("leaks") == "HOME"


COMPONENTS = components({"kind": "convert/torch", "device cpu": "this one"})
KEY = keys_of_stages.digest_components(COMPONENTS)
GOOD = action(KEY, components=COMPONENTS, host={"cpu": "this one", "host": "there"})


@pytest.fixture
def step(tmp_path: Path) -> Step:
    pipeline = orun.load(machine(tmp_path, "one").folder / "pipeline.yaml")
    return Step(pipeline.stages[0], "run", (), key=KEY, components=COMPONENTS)


def test_an_offer_that_is_right(step: Step) -> None:
    assert validate_record(step, encode_canonical(encode(GOOD))) == GOOD


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"key": "b" * 64}, "it is a result of something else"),
        (
            {"components": encode(components({"kind": "another", "device cpu": "this one"}))},
            "it is a result of something else",
        ),
        ({"host": {"cpu": "another"}}, "it was made on another device (cpu)"),
        ({"host": {}}, "it was made on another device (cpu)"),
        ({"tree": "../../etc/passwd"}, "it is not a result of this version of orun"),
        ({"log": "../../etc/passwd"}, "it is not a result of this version of orun"),
        ({"stage": "int8\x1b[2J"}, "it is not a result of this version of orun"),
        ({"metrics": {"nodes": 3}}, "it is not a result of this version of orun"),
        ({"metrics": {"nodes": {"value": 1.0, "unit": "parsec"}}}, "it is not a result of this version of orun"),
        ({"size": "12"}, "it is not a result of this version of orun"),
        ({"size": -1}, "it holds a number that cannot be"),
        ({"started_at": "inf"}, "it holds a number that cannot be"),
        ({"new": 1}, "it is not a result of this version of orun"),
    ],
)
def test_an_offer_that_is_not(step: Step, changes: dict[str, object], why: str) -> None:
    with pytest.raises(RefusedError) as caught:
        validate_record(step, json.dumps(encode(GOOD) | changes).encode())
    assert str(caught.value) == why


@pytest.mark.parametrize("text", ["", "[1]", "{}", "null", "[" * 100_000, '{"key":' * 5000])
def test_an_offer_that_is_no_record(step: Step, text: str) -> None:
    with pytest.raises(RefusedError, match="it is not a result of this version of orun"):
        validate_record(step, text.encode())


def manifest(*paths: str, size: int = 1) -> str:
    files = [{"path": path, "size": size, "digest": "1" * 64, "executable": False} for path in paths]
    return encode_canonical({"tree": 1, "hash": "blake3", "files": files}).decode()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (manifest("../x"), "the list of files names '../x', which is not a path inside a folder"),
        (manifest("a\x1b[2J"), r"it names 'a\x1b[2J', which no file should be called"),
        (manifest("\ud800"), r"it names '\ud800', which no file should be called"),
        (manifest("x" * 256), f"it names '{'x' * 80}', which no file should be called"),
        (manifest("x" + "/x" * 1536), f"it names '{'x/' * 40}', which no file should be called"),
        (manifest("a", size=-1), "its files have not the size that it tells"),
        (manifest("a", size=2), "its files have not the size that it tells"),
        ("[" * 100_000, "it is not a list of files"),
        ("{}", "it is not a list of files"),
    ],
)
def test_a_list_of_files_that_is_refused(text: str, why: str) -> None:
    with pytest.raises(RefusedError) as caught:
        validate_file_list(text.encode(), 1)
    assert str(caught.value) == why


def test_a_list_of_files_that_is_right() -> None:
    assert [entry.path for entry in validate_file_list(manifest("a", "b/c").encode(), 2)] == ["a", "b/c"]
