"""Layout of a store: paths and version."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from orun.errors import StoreError, UsageError
from orun.fs.digests import ALGORITHM, digest_bytes
from orun.fs.durable import make_folder, sync_folders, write_anew
from orun.fs.observed_state import presence
from orun.fs.os_errors import convert_os_errors, quoted

# objects     immutable files by digest, read-only
# actions     key -> what the stage made, and how: one sealed record for each set of discovered inputs
# latest      the last action of each stage, for people
# out         what people open: a checkout of the artifact of each stage
# runs        a folder for each run
# pins        trees that `gc` keeps, by name
# quarantine  what was found damaged or foreign
# index, locks, tmp   a cache of digests, locks of keys, work in progress: worthless between runs
FOLDERS = ("objects", "actions", "latest", "out", "runs", "pins", "quarantine", "index", "locks", "tmp")
PRIVATE = tuple(name for name in FOLDERS if name != "out")  # what only orun reads

_KEPT = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.=,+@[]()")
_LONGEST = 200  # file systems allow 255 bytes

RECORD_FILE = "record.json"  # what a run that has ended leaves in its folder
HISTORY_FILE = "history.sqlite"
VERSION_FILE = "VERSION"
BEGINNING = b"orun store"
VERSION = BEGINNING + f", layout 1, {ALGORITHM}\n".encode()
ELSEWHERE = "name a store, an empty folder or a new one: --store DIR"
BESIDE = frozenset(  # what may lie in a folder that becomes a store, or has lost its version
    {".gitignore", ".gitkeep", ".gitattributes", "README.md", "lost+found", ".DS_Store"}
    | {f"{HISTORY_FILE}{suffix}" for suffix in ("", "-wal", "-shm", "-journal")}
)


def prepare(root: Path) -> None:
    """Make a store at `root`, or see that the one there has a layout that this version knows.

    Raises:
        StoreError: when it has not, or cannot be made or read.
        UsageError: when the folder holds something else.
    """
    version = root / VERSION_FILE
    with convert_os_errors("open the store", root):
        found = _require_own(root)
        if found in (None, VERSION):
            above = make_folder(str(root))
            for name in FOLDERS:
                (root / name).mkdir(exist_ok=True)
        if found is None:
            sync_folders([str(root), *above])
            write_anew(str(root / ".gitignore"), b"*\n!README.md\n")
            write_anew(str(version), VERSION)
    require_known(root)


def is_writable(root: Path) -> bool:
    """Return whether this process may add to a store: not if its file system is read-only, or it is another user's.

    Where there is none, or none to be seen, it is for `prepare` to say why it cannot be made.
    """
    folders = [root, *filter(os.path.exists, [root / "runs"])]
    return not presence(root / VERSION_FILE) or all(os.access(path, os.W_OK) for path in folders)


def require_known(root: Path) -> None:
    """See that a store has a layout that this version knows; one that is not there has.

    Raises:
        StoreError: when it has not, or cannot be read.
        UsageError: when the folder holds something else.
    """
    version = root / VERSION_FILE
    with convert_os_errors("open the store", root):
        try:
            found = version.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            _require_own(root)
            return
    if found != VERSION and (VERSION.startswith(found) or not found.strip(b"\0")):
        raise StoreError(
            f"{version} was damaged",
            why=f"it says {found[:80]!r} instead of {VERSION!r}",
            hint=f"Remove it, and the next run writes it anew and checks what is there: rm {quoted(version)}",
        )
    if found != VERSION:
        raise StoreError(
            f"the store {root} has a layout that this version of orun does not know",
            why=f"{version} says {found[:80]!r} instead of {VERSION!r}",
            hint=f"Use the version of orun that made it, or put it aside and begin a new one:\n"
            f"mv {quoted(root)} {quoted(f'{root}.old')}",
        )


def _require_own(root: Path) -> bytes | None:
    """Return the version of the store at `root`; None where there is none, in a folder that may become one.

    Raises:
        OSError: when it cannot be read.
        UsageError: when the folder holds something else.
    """
    try:
        names = set(os.listdir(root))
    except FileNotFoundError:
        return None
    except NotADirectoryError as error:
        raise UsageError(f"{root} is a file, so no store can be there", hint=ELSEWHERE) from error
    found = (root / VERSION_FILE).read_bytes() if VERSION_FILE in names else None
    if names.issuperset(FOLDERS) or (found is not None and (found.startswith(BEGINNING) or not found.strip(b"\0"))):
        return found
    made = {name for name in names.intersection(FOLDERS) if FOLDERS[0] in names or _is_empty(root / name)}
    partial = {name for name in names if name.startswith((f"{VERSION_FILE}.", ".gitignore."))}  # of `write_anew`
    if foreign := names - BESIDE - made - partial:
        why = f"it holds {quoted(min(foreign))}" + (f" and {len(foreign) - 1} more" if len(foreign) > 1 else "")
        raise UsageError(f"{root} is no store, and not empty", why=why, hint=ELSEWHERE)
    return None


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not os.listdir(folder)


def history_path(root: Path) -> Path:
    """Where the measurements of runs are kept: in `$ORUN_HISTORY`, which several stores may share, or in the store."""
    chosen = os.environ.get("ORUN_HISTORY")
    return Path(chosen) if chosen else root / HISTORY_FILE


def note_path(root: Path, name: str) -> Path:
    """Where the note of the last run of a request lies; see `orun.noop.check`."""
    return root / "index" / f"run-{name}.json"


@functools.cache
def safe_name(name: str) -> str:
    """A name for a file or folder that tells what it stands for, whatever characters `name` has.

    Different names give different file names, but for letters' case on file systems that ignore it.
    """
    if len(name) <= _LONGEST and name.isascii() and name.isalnum():  # a key, for one
        return name
    data = name.encode(errors="surrogatepass")
    text = "".join(chr(byte) if byte in _KEPT else f"%{byte:02X}" for byte in data)
    if text[:1] in {"", "."}:  # a name of its own for the empty one; nothing hidden, and neither . nor ..
        text = f"%2E{text[1:]}" if text else "%"
    return text if len(text) <= _LONGEST else f"{text[:120]}%{digest_bytes(data)}"
