"""Layout of a store: folders, file names and version."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from pathlib import Path

from orun.errors import StoreError, UsageError
from orun.fs.bounded_reads import TEXT_LIMIT, read_bounded
from orun.fs.digests import ALGORITHM, digest_bytes
from orun.fs.durable import make_folder, sync_folders, write_if_absent
from orun.fs.observed_state import find_project, observe_presence
from orun.fs.os_errors import convert_os_errors, quote
from orun.text.suggestions import format_settings, show_path

# objects     immutable files by digest, read-only
# actions     action records by key, one for each set of implicit dependencies
# latest      pointers to the last action of each stage
# out         output checkouts, which people open
# runs        a folder for each run
# pins        trees that `gc` keeps, by name
# quarantine  damaged and foreign files
# index       digests of known files, and no-op records: the next run is slower without them
# locks, tmp  locks of keys, and work in progress: worthless between runs
FOLDERS = ("objects", "actions", "latest", "out", "runs", "pins", "quarantine", "index", "locks", "tmp")

OBJECT_FOLDER = re.compile("[0-9a-f]{2}")  # name of a folder in `objects`
_SAFE_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.=,+@[]()")
_LONGEST = 200  # file systems allow 255 bytes

RECORD_FILE = "record.json"  # in the folder of a run that has ended
HISTORY_FILE = "history.sqlite"
VERSION_FILE = "VERSION"
BEGINNING = b"orun store"
VERSION = BEGINNING + f", layout 1, {ALGORITHM}\n".encode()
OTHER_FOLDER = "name a store, an empty folder or a new one: --store DIR"
DATABASE_SUFFIXES = ("", "-wal", "-shm", "-journal")  # of a database of SQLite and the files that it makes beside it
ALLOWED_FILES = frozenset(  # in a folder that becomes a store, or has lost its version
    {".gitignore", ".gitkeep", ".gitattributes", "README.md", "lost+found", ".DS_Store"}
    | {f"{HISTORY_FILE}{suffix}" for suffix in DATABASE_SUFFIXES}
)


def prepare(root: Path) -> None:
    """Make a store, or check that the one there has a layout that this version knows.

    Raises:
        StoreError: if the layout is unknown, or the store cannot be made or read.
        UsageError: if the folder holds other files.
    """
    with convert_os_errors("open the store", root):
        version = _require_own(root)
        if version in (None, VERSION):
            changed = make_folder(str(root))
            for name in FOLDERS:
                (root / name).mkdir(exist_ok=True)
        if version is None:
            sync_folders([str(root), *changed])
            write_if_absent(str(root / ".gitignore"), b"*\n!README.md\n")
            write_if_absent(str(root / VERSION_FILE), VERSION)
    require_known(root)


def is_writable(root: Path) -> bool:
    """Return whether this process may write to a store: not on a read-only file system, or if it is another user's.

    True if there is no store: then `prepare` reports why it cannot be made.
    """
    folders = [root, *filter(os.path.exists, [root / "runs"])]
    return not observe_presence(root / VERSION_FILE) or all(os.access(path, os.W_OK) for path in folders)


def require_known(root: Path) -> None:
    """Check that this version knows the layout of a store; a missing store passes.

    Raises:
        StoreError: if the layout is unknown, or the store cannot be read.
        UsageError: if the folder holds other files.
    """
    file = root / VERSION_FILE
    with convert_os_errors("open the store", root):
        try:
            version = read_bounded(file, TEXT_LIMIT)
        except (FileNotFoundError, NotADirectoryError):
            _require_own(root)
            return
    if version != VERSION and (VERSION.startswith(version) or not version.strip(b"\0")):
        raise StoreError(
            f"{file} was damaged",
            why=f"it says {version[:80]!r} instead of {VERSION!r}",
            hint=f"Remove it, and the next run writes it anew and checks what is there: rm {quote(file)}",
        )
    if version != VERSION:
        raise StoreError(
            f"the store {root} has a layout that this version of orun does not know",
            why=f"{file} says {version[:80]!r} instead of {VERSION!r}",
            hint=f"Use the version of orun that made it, or put it aside and begin a new one:\n"
            f"mv {quote(root)} {quote(f'{root}.old')}",
        )


def _require_own(root: Path) -> bytes | None:
    """Return the version of a store; None if there is none, in a folder that may become one.

    Raises:
        OSError: if it cannot be read.
        UsageError: if the folder holds other files.
    """
    try:
        names = set(os.listdir(root))
    except FileNotFoundError:
        return None
    except NotADirectoryError as error:
        raise UsageError(f"{root} is a file, so no store can be there", hint=OTHER_FOLDER) from error
    version = read_bounded(root / VERSION_FILE, TEXT_LIMIT) if VERSION_FILE in names else None
    is_version = version is not None and (version.startswith(BEGINNING) or not version.strip(b"\0"))
    if names.issuperset(FOLDERS) or is_version:
        return version
    own = {name for name in names.intersection(FOLDERS) if _holds_objects(root) or _is_empty(root / name)}
    partial = {name for name in names if name.startswith((f"{VERSION_FILE}.", ".gitignore."))}  # of `write_if_absent`
    if foreign := names - ALLOWED_FILES - own - partial:
        why = f"it holds {quote(min(foreign))}" + (f" and {len(foreign) - 1} more" if len(foreign) > 1 else "")
        raise UsageError(f"{root} is no store, and not empty", why=why, hint=OTHER_FOLDER)
    return None


def _holds_objects(root: Path) -> bool:
    """Return whether there are objects, as in a store that has lost its version, and nothing else beside them."""
    folder = root / "objects"
    names = os.listdir(folder) if folder.is_dir() else []
    return bool(names) and all(OBJECT_FOLDER.fullmatch(name) for name in names)


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not os.listdir(folder)


def locate_store(chosen: str | os.PathLike[str] | None, folder: Path | None = None) -> Path:
    """Return the chosen store, or else that of a folder's pipelines, by default the working folder's."""
    return Path(chosen) if chosen else locate_default_store(folder or Path.cwd())


def locate_default_store(folder: Path) -> Path:
    """Return where results of a folder's pipelines go: `$ORUN_STORE`, or `artifacts/` at the top of its project."""
    chosen = os.environ.get("ORUN_STORE")
    return Path(chosen) if chosen else find_project(folder) / "artifacts"


def store_option(store: Path, folder: Path) -> str:
    """Return the `--store` option, to append to a command about a folder's pipelines; empty for its default store."""
    if store.absolute() == locate_default_store(folder.absolute()).absolute():
        return ""
    return f" --store {quote(show_path(str(store)))}"


def format_command_options(overrides: Mapping[str, str], store: Path, folder: Path) -> str:
    """Return the `--set` and `--store` options, to append to a command about a pipeline file in a folder."""
    return format_settings(overrides) + store_option(store, folder)


def locate_history(root: Path) -> Path:
    """Return the database of measurements: `$ORUN_HISTORY`, which several stores may share, or one in the store."""
    chosen = os.environ.get("ORUN_HISTORY")
    return Path(chosen) if chosen else root / HISTORY_FILE


def list_private_paths(root: Path) -> tuple[str, ...]:
    """Return the folders and files of a store that only orun reads, and those of its history."""
    folders = (f"{root}/{name}" for name in FOLDERS if name != "out")
    history = (f"{locate_history(root).absolute()}{suffix}" for suffix in DATABASE_SUFFIXES)
    return (*folders, f"{root}/{VERSION_FILE}", *history)


def locate_note(root: Path, name: str) -> Path:
    """Return the path of the no-op record of a request; see `orun.noop.check`."""
    return root / "index" / f"run-{name}.json"


@functools.cache
def to_safe_name(name: str) -> str:
    """Return a readable file name for any text; different texts have different file names.

    They may differ in case alone.
    """
    if len(name) <= _LONGEST and name.isascii() and name.isalnum():  # as a key
        return name
    data = name.encode(errors="surrogatepass")
    text = "".join(chr(byte) if byte in _SAFE_BYTES else f"%{byte:02X}" for byte in data)
    if text[:1] in {"", "."}:  # no empty and no hidden name, and neither . nor ..
        text = f"%2E{text[1:]}" if text else "%"
    return text if len(text) <= _LONGEST else f"{text[:120]}%{digest_bytes(data)}"
