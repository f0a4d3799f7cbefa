"""Lock of a server's packages: every version with its SHA-256, as pip's `--require-hashes` takes it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from orun.errors import MissingPackages, OrunError, UsageError
from orun.measure.model_server import read_requirements
from orun.stages.release._server import FOLDER, LOCK

PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==\S+")
RUNTIMES = "onnxruntime"  # begins the names of all builds
PIP_SECONDS = 300
REMAKE = (
    "name kserve and a build of ONNX Runtime in requirements.in, then: uv pip compile --universal --generate-hashes "
    "requirements.in -o requirements.lock"
)


def compose_lock(pins: Sequence[str]) -> str:
    """Return orun's lock of the server's packages, with further packages for this platform.

    Raises:
        OrunError: if pip does not find one.
    """
    text = (FOLDER / LOCK).read_text("utf-8")
    return text + "".join(
        f"{name}=={version} \\\n    --hash=sha256:{digest}\n" for name, version, digest in _find(pins)
    )


def read_lock(path: Path) -> str:
    """Return the text of a user's lock.

    Raises:
        UsageError: if a line has no version or no hash, or a package is missing that every server needs.
    """
    names = set[str]()
    for line in read_requirements(path):
        pin = PIN.match(line)
        if not pin or "--hash=sha256:" not in line:
            problem = f"lock: a line of {path.name} has no version or no hash"
            raise UsageError(problem, why=f"{line:.100}", hint=REMAKE)
        names.add(pin[1].lower())
    missing = [] if "kserve" in names else ["kserve"]
    if not any(name.startswith(RUNTIMES) for name in names):
        missing.append("a build of onnxruntime")
    if missing:
        raise UsageError(f"lock: {path.name} lacks {' and '.join(missing)}", hint=REMAKE)
    return path.read_text("utf-8")


def _find(pins: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield name, version and SHA-256 of the file that pip would install for each requirement."""
    options = ["--dry-run", "--ignore-installed", "--no-deps", "--only-binary=:all:", "--no-input", "--report", "-"]
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *options, *pins]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PIP_SECONDS)
    if "No module named pip" in done.stderr:
        raise MissingPackages("pip, which finds the packages of the server, is not installed", ["pip"])
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
        raise OrunError(
            f"pip finds no wheel of {', '.join(pins)} for the server",
            why="\n".join(errors[-2:]) or done.stderr.strip(),
            hint="set PIP_INDEX_URL to an index that has it, or give a lock of your own: `lock: requirements.lock`",
        )
    for item in json.loads(done.stdout)["install"]:
        fact = item["metadata"]
        yield fact["name"], fact["version"], item["download_info"]["archive_info"]["hashes"]["sha256"]
