"""Settings of the remote: from the command line, the environment, or the project's `pyproject.toml`.

The table `[tool.orun.remote]` may hold `url`, `mode`, `required`, and `trusted-keys`: files with public keys of the
writers whose results are accepted.
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
from orun.core.source_location import abridge
from orun.environment import distributions
from orun.environment.env_vars import SHARED_KEY, SIGNING_KEY
from orun.environment.install_commands import format_install_command
from orun.errors import UsageError
from orun.fs.bounded_reads import TEXT_LIMIT, read_bounded
from orun.fs.observed_state import observe_presence
from orun.fs.os_errors import quote
from orun.remote.options import FLEET, MODE, URL, Remote, locate_config
from orun.remote.trust import split_public_keys
from orun.store.layout import VERSION_FILE
from orun.text.suggestions import format_choices, suggest

Mode = Literal["read", "read-write"]

LONGEST_URL = 2000
OFF = "off"  # a URL that means no remote, or no fleet
MODES: tuple[Mode, ...] = ("read", "read-write")
SCHEMES = ("file", "s3", "gs", "az", "http", "https")
LONG_DOTTED_KEY = re.compile(r"""(?<![\w"'-])(?:[\w"'-]++[ \t]*+\.[ \t]*+){100}""")
FIELDS: Mapping[str, type] = {"url": str, "mode": str, "required": bool, "trusted-keys": list}


class Settings(Record, frozen=True):
    """Validated settings of a remote."""

    url: str
    mode: Mode
    required: bool = False  # whether the run fails if it cannot be used
    trusted: tuple[str, ...] = ()  # public keys in PEM; with none, and no shared key, every record is accepted


def read_remote_url(options: Remote, project: Path, environment: Mapping[str, str] = os.environ) -> str:
    """Return the URL of the remote that a run of a project uses, unchecked; empty if it uses none."""
    url: str | None = options.url
    if url is None:
        url = environment.get(URL) or _read_table(locate_config(project)).get("url", "")
    return "" if url == OFF else url


def resolve(options: Remote, project: Path, environment: Mapping[str, str] = os.environ) -> Settings | None:
    """Return the settings of the remote that a run of a project uses; None if it uses none.

    Raises:
        UsageError: if a setting is invalid, or a package is missing.
    """
    table = _read_table(locate_config(project))
    url = read_remote_url(options, project, environment)
    if not url:
        if options.url is None and (options.mode or options.required):
            option = "--remote-mode" if options.mode else "--remote-required"
            raise UsageError(f"{option} without a remote", hint=f"name one: --remote URL, or {URL}")
        return None
    _check_url(url)
    trusted = tuple(_read_trusted(project, table))
    modes = {"": options.mode, f"{MODE}: ": environment.get(MODE), f"{locate_config(project)}: ": table.get("mode")}
    source, mode = next(((source, mode) for source, mode in modes.items() if mode), ("", ""))
    if mode not in ("", *MODES):
        raise UsageError(f"{source}{abridge(mode)!r} is no mode of a remote", why=f"expected {format_choices(MODES)}")
    required = options.required or bool(table.get("required"))
    settings = Settings(url, _choose_mode(mode, url, trusted, environment), required, trusted)
    _check_packages(settings, environment)
    return settings


def list_key_files(project: Path) -> list[Path]:
    """Return every key file that a run of a project may read; UsageError if the project's settings are invalid."""
    private = os.environ.get(SIGNING_KEY)
    return [*list_trusted_files(project), *([Path(private)] if private else [])]


def list_trusted_files(project: Path) -> list[Path]:
    """Return the files of public keys that a project names; UsageError if its settings are invalid."""
    return [project / name for name in _read_table(locate_config(project)).get("trusted-keys", ())]


def read_fleet_url(option: str | None, project: Path) -> str:
    """Return the URL of the fleet that a run of a project uses; empty if it uses none.

    Raises:
        UsageError: if the project's settings are invalid.
    """
    url = (
        option if option is not None else os.environ.get(FLEET) or _read_own_table(locate_config(project)).get("on", "")
    )
    if not isinstance(url, str):
        raise UsageError(f"on of [tool.orun] in {locate_config(project)} must be a text, not {_shorten_value(url)}")
    return "" if url == OFF else url


def _read_table(file: Path) -> Mapping[str, Any]:
    """Return the table `[tool.orun.remote]` of a project, its types checked."""
    own = _read_own_table(file)
    table = _read_subtable(file, own, "tool.orun.remote")
    location = f"[tool.orun.remote] in {file}"
    _require_known(location, table, FIELDS)
    for name, value in table.items():
        _check_type(location, name, value)
    return table


def _read_own_table(file: Path) -> Mapping[str, Any]:
    """Return the table `[tool.orun]` of a project."""
    try:
        text = read_bounded(file, TEXT_LIMIT).decode("utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {file}", why=str(error), hint=f"ls -l {quote(file)}") from error
    if "orun" not in text:
        return {}
    own = _read_subtable(file, _read_subtable(file, _parse(file, text), "tool"), "tool.orun")
    _require_known(f"[tool.orun] in {file}", own, ("on", "remote"))
    return own


def _parse(file: Path, text: str) -> dict[str, Any]:
    import tomllib

    if LONG_DOTTED_KEY.search(text):  # tomllib takes time quadratic in its parts
        raise UsageError(f"{file} cannot be read", why="a key has more than 100 parts with dots between them")
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise UsageError(f"{file} is not TOML", why=str(error)) from error
    except RecursionError as error:
        raise UsageError(f"{file} cannot be read", why="its lists and tables are nested too deep") from error


def _read_subtable(file: Path, table: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    """Return a table of a table, by its full path; an empty one if it is missing."""
    value = table.get(path.rpartition(".")[2], {})
    if not isinstance(value, dict):
        raise UsageError(
            f"{path} in {file} must be a table, not {_shorten_value(value)}",
            hint='[tool.orun.remote], and on the line below: url = "s3://bucket/path"',
        )
    return cast("Mapping[str, Any]", value)


def _require_known(location: str, names: Iterable[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise UsageError(f"{location} has no field {abridge(name)!r}", why=suggest(name, known))


def _check_type(location: str, name: str, value: object) -> None:
    texts = isinstance(value, list) and all(isinstance(item, str) for item in value)
    if not isinstance(value, FIELDS[name]) or (FIELDS[name] is list and not texts):
        nouns = {str: "a text", bool: "true or false", list: "a list of files"}
        raise UsageError(f"{name} of {location} must be {nouns[FIELDS[name]]}, not {_shorten_value(value)}")


def _shorten_value(value: object) -> str:
    """Return a value of TOML for a message, shortened."""
    return "a table" if isinstance(value, dict) else reprlib.repr(value)


def _check_url(url: str) -> None:
    if len(url) > LONGEST_URL:
        raise UsageError(f"no remote can be at {abridge(url)!r}", why=f"a URL has at most {LONGEST_URL} letters")
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise UsageError(f"no remote can be at {url!r}", why=str(error), hint="--remote s3://bucket/path") from error
    if parts.scheme not in SCHEMES:
        meant = f"file://{os.path.normpath(Path(url).absolute())}" if url.startswith((".", "/")) else "s3://bucket/path"
        known = format_choices(f"{scheme}://" for scheme in SCHEMES)
        raise UsageError(f"no remote can be at {url!r}", why=f"it must begin with {known}", hint=f"--remote {meant}")
    if "@" in parts.netloc or parts.query or parts.fragment:
        plain = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        raise UsageError(
            "the URL of a remote holds a name, password or query, and would be shown and stored",
            hint=f"give credentials in the environment, and --remote {plain}",
        )
    if parts.scheme == "file" and (parts.netloc or not parts.path.startswith("/")):
        raise UsageError(f"{url} is not the URL of a folder", hint="three slashes and the whole path: file:///mnt/orun")
    if parts.scheme == "file" and observe_presence(Path(unquote(parts.path)) / VERSION_FILE):
        raise UsageError(
            f"{url} is a local store", why="a remote is a folder of its own", hint=f"--remote {quote(f'{url}-remote')}"
        )
    if parts.scheme != "file" and not parts.netloc:
        raise UsageError(f"{url} names no place", hint=f"{parts.scheme}://NAME/path")


def _choose_mode(wanted: str, url: str, trusted: tuple[str, ...], environment: Mapping[str, str]) -> Mode:
    """Return the wanted mode; without one, read-write if that is possible."""
    why = ""
    if url.startswith(("http://", "https://")):
        why = "a web server is only read"
    elif trusted and not (environment.get(SIGNING_KEY) or environment.get(SHARED_KEY)):
        why = f"its readers want signed results, and {SIGNING_KEY} is not set"
    if why and wanted == "read-write":
        raise UsageError(f"nothing can be written to the remote {url}", why=why, hint="--remote-mode read")
    return cast("Mode", wanted) if wanted else "read" if why else "read-write"


def _read_trusted(project: Path, table: Mapping[str, Any]) -> list[str]:
    """Return the public keys in the files that the project names."""
    keys: list[str] = []
    for name in table.get("trusted-keys", ()):
        path = project / name
        try:
            texts = split_public_keys(read_bounded(path, TEXT_LIMIT).decode("ascii"))
        except (OSError, ValueError) as error:
            why, shown = error.strerror if isinstance(error, OSError) else str(error), abridge(str(path))
            hint = f"ls -l {quote(shown)}"
            raise UsageError(f"cannot read the trusted key {shown}", why=why or "", hint=hint) from error
        if not texts:
            hint = "openssl pkey -in orun-signing.pem -pubout"
            raise UsageError(f"the trusted key {path} holds no public key in PEM", hint=hint)
        keys += texts
    return keys


def _check_packages(settings: Settings, environment: Mapping[str, str]) -> None:
    """Raise UsageError if a package that the remote needs is not installed. Imports none."""
    needs = ["obstore"] + (["cryptography"] if settings.trusted or environment.get(SIGNING_KEY) else [])
    for name in needs:
        if distributions.find(name) is None:
            raise UsageError(
                f"the remote {settings.url} needs {name}, which is not installed",
                hint=format_install_command([name], "remote"),
            )
