"""Addresses, tokens and the environment of Ray's processes."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest

from orun.cluster import settings
from orun.errors import UsageError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("ray://head:6379", "head:6379"),
        ("ray://10.0.0.5:7000/", "10.0.0.5:7000"),
        ("head:7000", "head:7000"),
        ("head", "head:6379"),
        ("ray://head", "head:6379"),
        ("[fd00::5]:7000", "fd00::5:7000"),
    ],
)
def test_an_address_is_read(text: str, address: str) -> None:
    assert settings.parse_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        *("", "ray://", ":6379", "head:port", "head:65536", "ray://head:6379/path", "https://head:6379"),
        *("ray://head..lan", "ray://head..lan:6379", f"{64 * 'h'}.lan:6379"),
    ],
)
def test_a_wrong_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        settings.parse_address(text)
    assert str(refused.value) == f"'{text}' is no address of a head\n  hint: write HOST:PORT, as in head:6379"


def test_a_head_that_is_not_there_is_named_with_the_command_that_starts_one() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]  # nobody listens
        with pytest.raises(settings.HeadError) as refused:
            settings.check_head(f"127.0.0.1:{port}")
    assert str(refused.value) == (
        f"no head answers at 127.0.0.1:{port}\n  Connection refused\n"
        f"  hint: Start one on 127.0.0.1: orun head --port {port}"
    )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder, and no token in the environment."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH", raising=False)
    return tmp_path


def test_a_missing_token_is_named_with_the_command_that_copies_it(home: Path) -> None:
    with pytest.raises(UsageError) as refused:
        settings.check_token("head:6379")
    assert str(refused.value) == (
        f"no token for the head at head:6379\n  {home}/.ray/auth_token does not exist\n"
        f"  hint: Copy the head's: scp head:.ray/auth_token {home}/.ray/auth_token\n  hint: or set RAY_AUTH_TOKEN"
    )


def test_a_token_is_made_once_and_for_its_user_alone(home: Path) -> None:
    assert settings.make_token()
    file = home / ".ray" / "auth_token"
    token = file.read_text(encoding="utf-8")
    assert len(token) == 64
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not settings.make_token()
    assert file.read_text(encoding="utf-8") == token
    settings.check_token("head:6379")


def test_the_token_is_where_the_environment_says(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = home / "my secrets" / "ray" / "token"
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(file))
    with pytest.raises(UsageError) as refused:
        settings.check_token("head:6379")
    assert str(refused.value) == (
        f"no token for the head at head:6379\n  {file} does not exist\n"
        f"  hint: Copy the head's: scp head:.ray/auth_token '{file}'\n  hint: or set RAY_AUTH_TOKEN"
    )
    assert settings.make_token()
    assert not settings.make_token()
    assert len(file.read_text(encoding="utf-8")) == 64
    assert not (home / ".ray").exists()


def test_a_token_of_the_environment_counts(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    assert not settings.make_token()
    assert not (home / ".ray").exists()


def test_another_address_of_the_environment_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "elsewhere:6379")
    environment = settings.build_environment()
    assert "RAY_ADDRESS" not in environment
    assert environment["RAY_AUTH_MODE"] == "token"
    assert environment["RAY_ENABLE_AUTO_CONNECT"] == "0"


def test_a_missing_ray_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(UsageError) as refused:
        settings.check_ray()
    assert str(refused.value) == "Ray is not installed here\n  hint: install ray"
