"""Commands that install what is missing."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from orun.environment import distributions, install_commands
from tests.project import ROOT


@pytest.fixture(autouse=True)
def active(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of this Python is the active one."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))


@pytest.mark.parametrize(
    ("missing", "extra", "command"),
    [
        (["onnxruntime|onnxruntime-gpu"], "", f"pip install -e '{ROOT}[cpu]'"),
        (["torch"], "torch", f"pip install -e '{ROOT}[torch]'"),
        (["torch", "onnx", "onnxruntime|onnxruntime-gpu"], "torch", f"pip install -e '{ROOT}[cpu,torch]'"),
        (["onnx"], "cpu", f"pip install -e '{ROOT}[cpu]'"),
        (["unheard-of"], "", "pip install unheard-of"),
        (["unheard-of"], "sklearn", f"pip install -e '{ROOT}[sklearn]'"),
        (["onnx", "unheard-of"], "", f"pip install -e '{ROOT}[cpu]' unheard-of"),
    ],
)
def test_one_command_installs_all_that_is_missing(missing: list[str], extra: str, command: str) -> None:
    assert install_commands.format_install_command(missing, extra, {}) == command


@pytest.mark.parametrize(
    ("missing", "extra", "command"),
    [
        (["onnx"], "cpu", f"pip install -e '{ROOT}[onnx]'"),
        (["numpy", "torch"], "torch", f"pip install -e '{ROOT}[torch]'"),
        (["onnx", "pyarrow"], "", f"pip install -e '{ROOT}[data,onnx]'"),
        (["obstore", "mlflow-skinny|mlflow"], "", f"pip install -e '{ROOT}[mlflow,remote]'"),
    ],
)
def test_beside_one_build_of_onnx_runtime_no_other_is_installed(missing: list[str], extra: str, command: str) -> None:
    assert install_commands.format_install_command(missing, extra, {"onnxruntime-gpu": "1.31.1"}) == command


def test_the_packages_of_all_extras_are_known_by_their_extra() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    holders: dict[str, set[str]] = {}
    for extra in extras.keys() - {"docs", "demo", "test"}:  # these are for people who work on orun
        for requirement in extras[extra]:
            holders.setdefault(re.split(r"[\[<>=]", requirement)[0], set()).add(extra)
    del holders["orun"]
    assert {name for name in holders if install_commands.EXTRAS.get(name) not in holders[name]} == set()


def test_what_reaches_the_environment_of_this_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert install_commands.choose_installer() == "pip install"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert install_commands.choose_installer() == f"{sys.executable} -m pip install"
    monkeypatch.setattr(distributions, "list_installed", dict)
    assert install_commands.choose_installer() == f"pip --python {sys.executable} install"
    (tmp_path / "uv").touch(0o755)
    assert install_commands.choose_installer() == f"uv pip install --python {sys.executable}"
    (tmp_path / "orun").mkdir()
    (tmp_path / "orun" / "pipx_metadata.json").touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "orun"))
    assert install_commands.choose_installer() == "pipx runpip orun install"


@pytest.mark.parametrize(
    ("note", "argument"),
    [
        ("", '"orun[cpu,torch]"'),
        ('{"url": "file:///a%20b", "dir_info": {"editable": true}}', "-e '/a b[cpu,torch]'"),
        ('{"url": "file:///src", "dir_info": {}}', "'/src[cpu,torch]'"),
        ('{"url": "file:///o.whl", "archive_info": {"hashes": {}}}', '"orun[cpu,torch] @ file:///o.whl"'),
        (
            '{"url": "https://h/o.git", "vcs_info": {"vcs": "git", "commit_id": "4f0a"}}',
            '"orun[cpu,torch] @ git+https://h/o.git@4f0a"',
        ),
    ],
    ids=["index", "editable", "folder", "wheel", "repository"],
)
def test_orun_is_installed_again_from_where_it_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, note: str, argument: str
) -> None:
    if note:
        (tmp_path / "direct_url.json").write_text(note)
    monkeypatch.setattr(distributions, "list_metadata_paths", lambda: {"orun": str(tmp_path)})
    assert install_commands.format_requirement("orun", ["cpu", "torch"]) == argument


def test_a_plug_in_is_upgraded_from_where_it_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = '{"url": "https://h/acme.git", "vcs_info": {"vcs": "git", "commit_id": "4f0a"}}'
    (tmp_path / "direct_url.json").write_text(note)
    monkeypatch.setattr(distributions, "list_metadata_paths", lambda: {"acme": str(tmp_path)})
    assert install_commands.format_upgrade_command("acme") == 'pip install --upgrade "acme @ git+https://h/acme.git"'
    assert install_commands.format_upgrade_command("other") == "pip install --upgrade other"


@pytest.mark.parametrize(
    ("library", "command"),
    [
        ("libcuda.so.1", "install NVIDIA's driver"),
        ("libcublasLt.so.13", "pip install 'onnxruntime-gpu[cuda,cudnn]'"),
        ("libcudnn.so.9", "pip install 'onnxruntime-gpu[cuda,cudnn]'"),
        ("libnvinfer.so.10", "install TensorRT"),
        ("libhipblas.so.2", ""),
    ],
)
def test_what_installs_a_library_of_a_gpu(library: str, command: str) -> None:
    message = (
        f"CUDAExecutionProvider does not load ({library}: cannot open shared object file: No such file or directory)"
    )
    assert install_commands.find_library_command(message) == command
    assert install_commands.find_library_command(f"{library} has the wrong version") == ""
