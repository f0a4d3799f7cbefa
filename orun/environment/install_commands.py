"""Commands that install what is missing, true of how orun itself was installed."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from orun.environment import distributions
from orun.environment.package_origin import read_origin

# Extra of orun that includes a distribution, for the hint about a missing one.
EXTRAS: Mapping[str, str] = {
    "cryptography": "remote",
    "huggingface-hub": "hub",
    "keras": "tensorflow",
    "mcp": "mcp",
    "ml-dtypes": "onnx",
    "mlflow-skinny": "mlflow",
    "numpy": "onnx",
    "obstore": "remote",
    "onnx": "onnx",
    "onnx-ir": "onnx",
    "onnxmltools": "trees",
    "onnxruntime": "cpu",
    "onnxruntime-extensions": "extensions",
    "onnxruntime-gpu": "gpu",
    "onnxscript": "torch",
    "onnxsim": "onnx",
    "onnxslim": "slim",
    "optuna": "tune",
    "oras": "oci",
    "pillow": "data",
    "pyarrow": "data",
    "pycocotools": "metrics",
    "rapidfuzz": "metrics",
    "ray": "ray",
    "safetensors": "data",
    "scikit-learn": "sklearn",
    "skl2onnx": "sklearn",
    "sympy": "onnx",
    "tensorflow": "tensorflow",
    "tensorflow-cpu": "tensorflow",
    "tf2onnx": "tensorflow",
    "torch": "torch",
}
# What installs a shared library that a provider of GPUs does not find, by the beginning of its name.
SHARED_LIBRARIES: Mapping[str, str] = {
    "libcuda.so": "install NVIDIA's driver",
    "libnvinfer": "install TensorRT",
    "libcu": "pip install 'onnxruntime-gpu[cuda,cudnn]'",
}
WITHOUT_ONNX = frozenset({"data", "hub", "mcp", "mlflow", "oci", "ray", "remote"})  # extras that do not include `onnx`


def find_library_command(message: str) -> str:
    """Return what installs the shared library that a message of ONNX Runtime says is missing; empty if unknown."""
    if "cannot open shared object file" not in message:
        return ""
    return next((command for name, command in SHARED_LIBRARIES.items() if name in message), "")


def format_install_command(
    missing: Iterable[str], extra: str = "", packages: Mapping[str, str] | None = None, other_tools: Iterable[str] = ()
) -> str:
    """Return the one command that installs all of these tools.

    Args:
        missing: the tools, each as `find` takes it.
        extra: the extra of orun that a kind names; it includes the tools that no other extra has.
        packages: installed packages, as for `find`. The command adds the CPU build of ONNX Runtime only if no build is
            installed, because builds overwrite one another.
        other_tools: tools that the extra need not include.
    """
    names, other_names = ([tool.partition("|")[0] for tool in tools] for tools in (missing, other_tools))
    extras = _list_extras(names, other_names, extra, packages)
    with_extras = [format_requirement("orun", extras)] if extras else []
    plain = [name for name in (*(() if extra else names), *other_names) if name not in EXTRAS]
    return " ".join([choose_installer(), *with_extras, *plain])


def format_upgrade_command(distribution: str) -> str:
    """Return the command that upgrades a distribution from where it was installed."""
    return f"{choose_installer()} --upgrade {format_requirement(distribution, pinned=False)}"


def list_extras(tools: Iterable[str], extra: str) -> list[str]:
    """Return the extras of orun that include the tools of a kind. Arguments as for `format_install_command`."""
    return _list_extras([tool.partition("|")[0] for tool in tools], [], extra, {})


def _list_extras(names: list[str], other_names: list[str], extra: str, packages: Mapping[str, str] | None) -> list[str]:
    extras = {EXTRAS[name] for name in (*names, *other_names) if name in EXTRAS}
    if extra and names:
        extras.add(extra)
    if "onnx" in extras and not distributions.find("onnxruntime", packages):
        extras.add("cpu")
    elif "cpu" in extras and "onnxruntime" not in names:
        extras = extras - {"cpu"} | {"onnx"}
    if extras - WITHOUT_ONNX - {"onnx"}:
        extras.discard("onnx")  # the others include it
    return sorted(extras)


def format_requirement(distribution: str, extras: Sequence[str] = (), *, pinned: bool = True) -> str:
    """Return an installed distribution as an argument of pip, quoted for a shell: where it came from.

    Only a distribution without such a note (PEP 610) came from an index, which knows it by its name.

    Args:
        distribution: its name.
        extras: its extras.
        pinned: whether to name the commit that it was built from, and not the newest of its repository.
    """
    brackets = f"[{','.join(extras)}]" if extras else ""
    origin = read_origin(distributions.list_metadata_paths().get(distribution, ""))
    if origin.dir_info is not None:
        return f"{'-e ' if origin.is_editable else ''}{shlex.quote(origin.folder + brackets)}"
    if not origin.url:
        return f'"{distribution}{brackets}"' if extras else distribution
    commit = f"@{origin.vcs_info.commit_id}" if pinned else ""
    url = f"{origin.vcs_info.vcs}+{origin.url}{commit}" if origin.vcs_info.vcs else origin.url
    return f'"{distribution}{brackets} @ {url}"'


def choose_installer() -> str:
    """Return the command that installs into the environment of this Python; plain `pip` may be that of another one."""
    python = shlex.quote(sys.executable)
    if Path(sys.prefix, "pipx_metadata.json").exists():
        return f"pipx runpip {Path(sys.prefix).name} install"
    if "pip" not in distributions.list_installed():
        return f"uv pip install --python {python}" if shutil.which("uv") else f"pip --python {python} install"
    pip = shutil.which("pip")
    same = pip is not None and Path(pip).parent == Path(sys.executable).parent
    return "pip install" if same else f"{python} -m pip install"
