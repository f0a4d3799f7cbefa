"""Builder of isolated environments: virtual environments of orun's own Python, filled by pip."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from orun.core.serialization import encode
from orun.core.source_location import abridge
from orun.core.targets import Environment
from orun.environment import processes, venv_contents, venvs
from orun.environment.distributions import normalize
from orun.errors import EnvironmentFailed
from orun.fs.durable import replace_file
from orun.fs.locks import Lock
from orun.fs.os_errors import convert_os_errors

PIP_SECONDS = 3600
PIP_OPTIONS = ("--no-input", "--disable-pip-version-check", "--no-color", "--progress-bar", "off")
# Variables that would lead pip or the interpreter out of the environment.
OUTSIDE = (
    "PYTHONHOME", "PYTHONPATH", "PIP_PREFIX", "PIP_TARGET", "PIP_ROOT", "PIP_USER", "PIP_REQUIRE_VIRTUALENV",
    "PIP_DRY_RUN", "PIP_NO_DEPS",
)  # fmt: skip
UNREACHABLE = ("connection broken", "Max retries exceeded", "Could not fetch URL", "Temporary failure in name")
NOTHING = "(from versions: none)"  # pip says no more of an index that it cannot reach, if it is not to try again
OTHER_INDEXES = "PIP_INDEX_URL and PIP_FIND_LINKS name others"
URL = "://"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?![^\s\[<>=!~@])")

Tell = Callable[[str], None]


def make(environment: Environment, tell: Tell = lambda _: None) -> None:
    """Make an environment, unless it exists and matches its record; tell before each slow step.

    If several processes want the same environment, the first makes it and the others wait. A killed process leaves no
    record, and the next one starts again.

    Raises:
        EnvironmentFailed: when it cannot be made, with pip's last lines.
        StoreError: when its folder cannot be written.
    """
    folder = venvs.locate_folder(environment)
    if not venvs.describe_damage(folder):
        return
    with convert_os_errors("make an environment", folder):
        folder.mkdir(parents=True, exist_ok=True)
    lock = Lock(folder / "lock", keep=True)
    lock.acquire(lambda: tell(f"environment {environment.name!r}: another orun process makes it"))
    with lock:
        if damage := venvs.describe_damage(folder):
            again = venvs.is_known(environment)
            action = f"making it again, because {damage}" if again else "making it, once for this machine"
            tell(f"environment {environment.name!r}: {action} ({', '.join(_list_packages(environment))})")
            with convert_os_errors("make an environment", folder):
                _build(environment, folder, lock.descriptor)


def _build(environment: Environment, folder: Path, lock: int) -> None:
    if venvs.locate_prefix(folder).exists():
        shutil.rmtree(venvs.locate_prefix(folder))
    pip = _create(environment, folder)
    brought = venvs.list_packages_in(folder)
    lines = _build_input(environment)
    (folder / "requirements.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    (folder / "constraints.txt").write_text("".join(f"{line}\n" for line in environment.constraints), "utf-8")
    exact = ["--no-deps"] if venvs.is_known(environment) else []
    command = [*pip, "install", *PIP_OPTIONS, *exact, "-r", "requirements.txt", "-c", "constraints.txt"]
    log = folder / "pip.log"
    with log.open("wb") as output:
        status = _run(command, folder, output.fileno(), lock)
    if status:
        log_lines = log.read_text("utf-8", "replace").splitlines()
        raise EnvironmentFailed(
            f"environment {environment.name!r} cannot be made",
            why=_explain(log_lines),
            hint=f"all that pip said: {log}",
        )
    there = venvs.list_packages_in(folder)
    if lacking := [name for name in _list_names(lines) if name not in there]:
        raise EnvironmentFailed(
            f"environment {environment.name!r} cannot be made",
            why=f"pip ended well, and {', '.join(lacking)} did not come to be there: its settings lead elsewhere",
            hint=f"see them: {sys.executable} -m pip config list",
        )
    venv_contents.note(folder, venvs.locate_prefix(folder))
    packages = {name: version for name, version in there.items() if brought.get(name) != version}
    _record(environment, venvs.EnvironmentRecord(environment.requirements, packages, venvs.list_exact_in(folder)))


def _record(environment: Environment, contents: venvs.EnvironmentRecord) -> None:
    """Write the resolved versions; from then on the environment counts as complete."""
    text = json.dumps(encode(contents), indent=1, sort_keys=True) + "\n"
    record = venvs.locate_record(environment)
    replace_file(str(record), text.encode(), str(record.with_name(f".packages-{os.urandom(6).hex()}")))


def _create(environment: Environment, folder: Path) -> list[str]:
    """Create the empty virtual environment; return the command of a pip that installs into it."""
    import venv

    if os.pathsep in str(folder):
        raise EnvironmentFailed(
            f"environment {environment.name!r} cannot be made",
            why=f"the path of its folder has a {os.pathsep!r} in it, which parts the paths of PYTHONPATH: {folder}",
            hint="choose another folder: export ORUN_ENVIRONMENTS=FOLDER",
        )
    own = importlib.util.find_spec("pip") is not None
    try:
        venv.EnvBuilder(symlinks=True, with_pip=not own).create(venvs.locate_prefix(folder))
    except (subprocess.CalledProcessError, ImportError) as error:
        output = getattr(error, "output", None) or b""
        why = output.decode(errors="replace").strip().splitlines()[-1:] or [str(error)]
        raise EnvironmentFailed(
            f"environment {environment.name!r} cannot be made: pip is missing",
            why=f"neither is it beside orun, nor does this Python bring it along: {why[0]}",
            hint=f"install pip beside orun: {sys.executable} -m ensurepip, or uv pip install pip",
        ) from error
    python = str(venvs.locate_python(folder))
    return [sys.executable, "-m", "pip", "--python", python] if own else [python, "-m", "pip"]


def _build_input(environment: Environment) -> Sequence[str]:
    """Return pip's input: the request, or the exact versions that it resolved to before."""
    previous = venvs.read(venvs.locate_record(environment))
    requested = environment.requirements
    if previous is None or any("--hash" in line for line in requested):
        return requested
    exact = [line for line in requested if line.startswith("-") or URL in line]
    named = set(_list_names(exact))
    return [*exact, *(f"{name}=={version}" for name, version in previous.packages.items() if name not in named)]


def _list_names(lines: Iterable[str]) -> list[str]:
    """Return the normalized names in lines of requirements, except lines with a marker."""
    matches = (NAME.match(line) for line in lines if ";" not in line)
    return [normalize(match[0]) for match in matches if match]


def _list_packages(environment: Environment) -> list[str]:
    """Return the requirements without options and hashes, for messages."""
    return [line.partition(" --")[0] for line in environment.requirements if not line.startswith("-")]


def _run(command: Sequence[str], folder: Path, output: int, lock: int) -> int:
    """Run pip to its end; an interruption of this process ends it.

    Pip inherits `lock`: if this process is killed, no other starts before pip ends.
    """
    variables = {name: value for name, value in os.environ.items() if name not in OUTSIDE}
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=variables,
        pass_fds=(lock,),
        start_new_session=True,
    )
    try:
        return process.wait(PIP_SECONDS)
    except subprocess.TimeoutExpired:
        os.write(output, f"ERROR: pip had not ended after {PIP_SECONDS} s\n".encode())
        return 1
    finally:
        if process.poll() is None:
            processes.signal_group(process.pid, signal.SIGKILL)
            process.wait()


def _explain(log_lines: Sequence[str]) -> str:
    """Return pip's errors, or the last lines of its output."""
    errors = [line for line in log_lines if line.startswith("ERROR:")] or log_lines[-3:]
    lines = [abridge(line) for line in errors]
    if any(sign in line for line in log_lines for sign in UNREACHABLE):
        lines.append(f"a package index could not be reached; {OTHER_INDEXES}")
    elif any(NOTHING in line for line in log_lines):
        lines.append(f"no package index offers it for this Python, or none could be reached; {OTHER_INDEXES}")
    return "\n".join(lines[-6:]) or "pip said nothing"
