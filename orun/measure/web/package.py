"""The npm package onnxruntime-web as a project has it installed."""

from __future__ import annotations

import re
from pathlib import Path

from orun.core.serialization import Record, parse_foreign_json
from orun.errors import UsageError

NAME = "onnxruntime-web"
OLDEST = (1, 19)  # the first with ES modules
FULL = re.compile(r"(\d+)\.(\d+)\.\d+(-[\w.-]+)?")
WASM = "ort-wasm-simd-threaded.wasm"
BROWSER = "ort.wasm.bundle.min.mjs"
SPLIT = "ort.wasm.min.mjs"  # of versions without the bundle; needs the module beside the binary
SPLIT_WASM = "ort-wasm-simd-threaded.mjs"
NODE = "ort.node.min.mjs"


class WebPackage(Record, frozen=True):
    """An installed onnxruntime-web.

    Attributes:
        version: its version.
        folder: where it is installed.
    """

    version: str
    folder: Path

    @property
    def scripts(self) -> Path:
        """Folder of its modules and WebAssembly binaries."""
        return self.folder / "dist"

    @property
    def browser_module(self) -> str:
        """Name of the module that a page imports: WebAssembly alone, without providers for GPUs."""
        return BROWSER if (self.scripts / BROWSER).exists() else SPLIT

    @property
    def browser_files(self) -> tuple[str, ...]:
        """Names of the files that a page needs."""
        return (BROWSER, WASM) if self.browser_module == BROWSER else (SPLIT, SPLIT_WASM, WASM)


def find_package(root: Path, version: str, node_modules: str = "") -> WebPackage:
    """Return the onnxruntime-web that Node.js would find from the folder of a pipeline.

    Args:
        root: folder of the pipeline file.
        version: the version that must be installed.
        node_modules: the `node_modules` folder, relative to `root`; the nearest one with the package when empty.

    Raises:
        UsageError: when this version is not installed, or cannot be used.
    """
    parts = FULL.fullmatch(version)
    if not parts:
        raise UsageError(
            f"`onnxruntime_web: {version}` is not the full version of an npm package",
            hint=f"write it as `npm view {NAME} version` does: 1.30.0",
        )
    if (int(parts[1]), int(parts[2])) < OLDEST:
        raise UsageError(
            f"{NAME} {version} is too old",
            why="versions before 1.19 have no ES modules",
            hint=_install("1.30.0"),
        )
    folder = _find_folder(root, node_modules)
    if folder is None:
        folders = node_modules or f"node_modules of {root} and the folders above it"
        raise UsageError(f"{NAME} {version} is not installed", why=f"{folders} has no {NAME}", hint=_install(version))
    content = parse_foreign_json((folder / "package.json").read_bytes())
    installed = content.get("version") if isinstance(content, dict) else None
    if installed != version:
        raise UsageError(
            f"{NAME} {version} is not installed", why=f"{folder} is {NAME} {installed}", hint=_install(version)
        )
    package = WebPackage(version, folder)
    missing = [name for name in (*package.browser_files, NODE) if not (package.scripts / name).is_file()]
    if missing:
        why = f"it lacks dist/{', dist/'.join(missing)}"
        raise UsageError(f"{folder} is not a whole {NAME}", why=why, hint=_install(version))
    return package


def _find_folder(root: Path, node_modules: str) -> Path | None:
    places = [root / node_modules] if node_modules else [folder / "node_modules" for folder in (root, *root.parents)]
    return next((place / NAME for place in places if (place / NAME / "package.json").is_file()), None)


def _install(version: str) -> str:
    return f"npm install --save-exact {NAME}@{version}"
