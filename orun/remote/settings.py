"""Settings of the remote: from the command line, the environment, or the project's `pyproject.toml`.

Its table `[tool.orun.remote]` may hold `url`, `mode`, `required`, and `trusted-keys`: files with the public keys of
those whose results are believed.
"""

from __future__ import annotations

import os
import re
import reprlib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import unquote, urlsplit

from orun.core.serialization import Record
from orun.core.source_location import abridged
from orun.environment import distributions
from orun.environment.env_vars import SHARED_KEY, SIGNING_KEY
from orun.errors import UsageError
from orun.fs.observed_state import TEXT_LIMIT, presence, read_bounded
from orun.remote.options import MODE, URL, Remote, config_file
from orun.remote.trust import public_texts
from orun.store.layout import VERSION_FILE
from orun.text.suggestions import closest, one_of

Mode = Literal["read", "read-write"]

LONGEST_URL = 2000
OFF = "off"  # the URL that stands for no remote
MODES: tuple[Mode, ...] = ("read", "read-write")
SCHEMES = ("file", "s3", "gs", "az", "http", "https")
MANY_PARTS = re.compile(r"""(?<![\w"'-])(?:[\w"'-]++[ \t]*+\.[ \t]*+){100}""")  # of a key of TOML
FIELDS: Mapping[str, type] = {"url": str, "mode": str, "required": bool, "trusted-keys": list}


class Settings(Record, frozen=True):
    """A remote to be used.

    Attributes:
        url: where it is.
        mode: whether results are written to it.
        required: whether the run fails when it cannot be used.
        trusted: public keys as PEM texts: whose results are believed; anybody's when there is none and no shared key.
    """

    url: str
    mode: Mode
    required: bool = False
    trusted: tuple[str, ...] = ()


def resolve(asked: Remote, project: Path, environment: Mapping[str, str] = os.environ) -> Settings | None:
    """The remote that a run of a project uses, or None.

    Raises:
        UsageError: when what is said of it cannot be, or a package for it is not installed.
    """
    table = _table(config_file(project))
    url = asked.url if asked.url is not None else environment.get(URL) or table.get("url", "")
    if url in ("", OFF):
        _need_no_url(asked)
        return None
    _check_url(url)
    trusted = tuple(_trusted(project, table))
    mode = asked.mode or environment.get(MODE) or table.get("mode") or ""
    settings = Settings(
        url, _mode(mode, url, trusted, environment), asked.required or bool(table.get("required")), trusted
    )
    _check_packages(settings, environment)
    return settings


def key_files(project: Path, environment: Mapping[str, str] = os.environ) -> list[Path]:
    """Every file of a key that a run of a project may read; UsageError when the project's settings cannot be."""
    private = environment.get(SIGNING_KEY)
    named = _table(config_file(project)).get("trusted-keys", ())
    return [*(project / name for name in named), *([Path(private)] if private else [])]


def _table(file: Path) -> Mapping[str, Any]:
    """`[tool.orun.remote]` of a project."""
    try:
        text = read_bounded(file, TEXT_LIMIT).decode("utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {file}", why=str(error), hint=f"ls -l {file}") from error
    if "orun" not in text:
        return {}
    own = _below(file, _below(file, _parsed(file, text), "tool"), "tool.orun")
    _require_known(f"[tool.orun] in {file}", own, ("remote",))
    table = _below(file, own, "tool.orun.remote")
    where = f"[tool.orun.remote] in {file}"
    _require_known(where, table, FIELDS)
    for name, value in table.items():
        _check_type(where, name, value)
    return table


def _parsed(file: Path, text: str) -> dict[str, Any]:
    import tomllib

    if MANY_PARTS.search(text):  # reading it takes the square of its parts
        raise UsageError(f"{file} cannot be read", why="a key has more than 100 parts with dots between them")
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise UsageError(f"{file} is not TOML", why=str(error)) from error
    except RecursionError as error:
        raise UsageError(f"{file} cannot be read", why="its lists and tables are nested too deep") from error


def _below(file: Path, table: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    """The table of that path in the one above it; an empty one where there is none."""
    found = table.get(path.rpartition(".")[2], {})
    if not isinstance(found, dict):
        raise UsageError(
            f"{path} in {file} must be a table, not {_shown(found)}",
            hint='[tool.orun.remote], and on the line below: url = "s3://bucket/path"',
        )
    return cast("Mapping[str, Any]", found)


def _require_known(where: str, names: Iterable[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            meant = closest(name, known)
            why = f"did you mean {meant}?" if meant else f"expected {one_of(known)}"
            raise UsageError(f"{where} has no field {abridged(name)!r}", why=why)


def _check_type(where: str, name: str, value: object) -> None:
    texts = isinstance(value, list) and all(isinstance(item, str) for item in value)
    if not isinstance(value, FIELDS[name]) or (FIELDS[name] is list and not texts):
        words = {str: "a text", bool: "true or false", list: "a list of files"}
        raise UsageError(f"{name} of {where} must be {words[FIELDS[name]]}, not {_shown(value)}")


def _shown(value: object) -> str:
    """A value of TOML for a message: short, however large it is."""
    return "a table" if isinstance(value, dict) else reprlib.repr(value)


def _need_no_url(asked: Remote) -> None:
    if asked.url is None and (asked.mode or asked.required):
        option = "--remote-mode" if asked.mode else "--remote-required"
        raise UsageError(f"{option} without a remote", hint=f"name one: --remote URL, or {URL}")


def _check_url(url: str) -> None:
    if len(url) > LONGEST_URL:
        raise UsageError(f"no remote can be at {abridged(url)!r}", why=f"a URL has at most {LONGEST_URL} letters")
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise UsageError(f"no remote can be at {url!r}", why=str(error), hint="--remote s3://bucket/path") from error
    if parts.scheme not in SCHEMES:
        meant = f"file://{Path(url).absolute()}" if url.startswith((".", "/")) else "s3://bucket/path"
        known = one_of(f"{scheme}://" for scheme in SCHEMES)
        raise UsageError(f"no remote can be at {url!r}", why=f"it must begin with {known}", hint=f"--remote {meant}")
    if "@" in parts.netloc or parts.query or parts.fragment:
        plain = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        raise UsageError(
            "the URL of a remote holds a name, password or query, and would be shown and stored",
            hint=f"give credentials in the environment, and --remote {plain}",
        )
    if parts.scheme == "file" and (parts.netloc or not parts.path.startswith("/")):
        raise UsageError(f"{url} is not the URL of a folder", hint="three slashes and the whole path: file:///mnt/orun")
    if parts.scheme == "file" and presence(Path(unquote(parts.path)) / VERSION_FILE):
        raise UsageError(
            f"{url} is a local store", why="a remote is a folder of its own", hint=f"--remote {url}-remote"
        )
    if parts.scheme != "file" and not parts.netloc:
        raise UsageError(f"{url} names no place", hint=f"{parts.scheme}://NAME/path")


def _mode(wanted: str, url: str, trusted: tuple[str, ...], environment: Mapping[str, str]) -> Mode:
    """As it is wanted, or read-write where that can be."""
    if wanted not in ("", *MODES):
        raise UsageError(f"{abridged(wanted)!r} is no mode of a remote", why=f"expected {one_of(MODES)}")
    why = ""
    if url.startswith(("http://", "https://")):
        why = "a web server is only read"
    elif trusted and not (environment.get(SIGNING_KEY) or environment.get(SHARED_KEY)):
        why = f"its readers want signed results, and {SIGNING_KEY} is not set"
    if why and wanted == "read-write":
        raise UsageError(f"nothing can be written to the remote {url}", why=why, hint="--remote-mode read")
    return cast("Mode", wanted) if wanted else "read" if why else "read-write"


def _trusted(project: Path, table: Mapping[str, Any]) -> list[str]:
    """The public keys in the files that the project names."""
    found: list[str] = []
    for name in table.get("trusted-keys", ()):
        path = project / name
        try:
            texts = public_texts(read_bounded(path, TEXT_LIMIT).decode("ascii"))
        except (OSError, ValueError) as error:
            why, shown = error.strerror if isinstance(error, OSError) else str(error), abridged(str(path))
            raise UsageError(f"cannot read the trusted key {shown}", why=why or "", hint=f"ls -l {shown}") from error
        if not texts:
            hint = "openssl pkey -in orun-signing.pem -pubout"
            raise UsageError(f"the trusted key {path} holds no public key in PEM", hint=hint)
        found += texts
    return found


def _check_packages(settings: Settings, environment: Mapping[str, str]) -> None:
    """See that what the remote needs is installed, without importing it."""
    needs = ["obstore"] + (["cryptography"] if settings.trusted or environment.get(SIGNING_KEY) else [])
    for name in needs:
        if distributions.find(name) is None:
            raise UsageError(
                f"the remote {settings.url} needs {name}, which is not installed",
                hint=distributions.install_command([name], "remote"),
            )
