"""Isolated environments: made once by real pip from wheels in a folder, whatever happens meanwhile."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from orun.core.targets import Environment
from orun.environment import venv_builder, venv_contents, venvs
from orun.errors import EnvironmentFailed, StoreError

from .wheels import use_index, wheel

TINY = Environment("tiny", ("tiny==1.0",))
MAKE = """
import sys
from orun.environment.venv_builder import make
from orun.core.targets import Environment
make(Environment("tiny", ("tiny==1.0",)), lambda text: print(text, flush=True))
print("done", flush=True)
"""


def offer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index of what `TINY` takes, and no environment yet."""
    wheel(folder / "index", "tiny", "1.0", ["inner"])
    wheel(folder / "index", "inner", "1.0")
    use_index(folder / "index", folder / "environments", monkeypatch)
    return folder / "index"


@pytest.fixture(autouse=True)
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return offer(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of environments in which `TINY` was made, of a name with blanks, quotes and letters of elsewhere."""
    folder = tmp_path_factory.mktemp("once")
    environments = folder / 'ä b\'s "q"'
    with pytest.MonkeyPatch.context() as patch:
        offer(folder, patch)
        patch.setenv("ORUN_ENVIRONMENTS", str(environments))
        assert venvs.read_packages(TINY) == {}
        assert not venvs.is_known(TINY)
        assert make() == ["environment 'tiny': making it, once for this machine (tiny==1.0)"]
    return environments


@pytest.fixture
def environment_folder(once: Path, tmp_path: Path) -> Path:
    """The folder of `TINY`, which was made before: a copy of it, which is as good."""
    shutil.copytree(once, tmp_path / "environments", symlinks=True)
    return venvs.locate_folder(TINY)


def make(environment: Environment = TINY) -> list[str]:
    """What was said while it was made."""
    messages: list[str] = []
    venv_builder.make(environment, messages.append)
    return messages


def ask(code: str, environment: Environment = TINY) -> str:
    """What a program prints in the environment, isolated from this process's variables."""
    venv = venvs.choose_interpreter(environment)
    variables = {"PYTHONPATH": venv.path or ""}
    process = subprocess.run([venv.python, "-P", "-c", code], capture_output=True, text=True, check=True, env=variables)
    return process.stdout.strip()


def start_making() -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", MAKE], stdout=subprocess.PIPE, text=True, start_new_session=True)


def test_it_is_made_once_whatever_its_name(once: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORUN_ENVIRONMENTS", str(once))
    assert venvs.read_packages(TINY) == {"inner": "1.0", "tiny": "1.0"}
    assert make(Environment("other", ("tiny==1.0",))) == []
    assert venvs.locate_folder(TINY) != venvs.locate_folder(Environment("tiny", ("tiny==2.0",)))
    assert venvs.locate_folder(TINY) != venvs.locate_folder(Environment("tiny", TINY.requirements, ("inner==1.0",)))


def test_it_runs_orun_with_its_own_packages_and_no_other(once: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORUN_ENVIRONMENTS", str(once))
    names = "orun.executors.local.stage_process, importlib.util as util, tiny, inner, sys"
    foreign = "util.find_spec('numpy'), util.find_spec('click')"
    code = f"import {names}\nprint(tiny.version, sys.prefix, 'site' in sys.modules, {foreign})"
    assert ask(code) == f"1.0 {venvs.locate_prefix(venvs.locate_folder(TINY))} True None None"


@pytest.mark.slow
def test_what_was_removed_is_made_again_with_the_versions_it_had(index: Path, environment_folder: Path) -> None:
    wheel(index, "inner", "2.0")
    venvs.locate_prefix(environment_folder).rename(environment_folder / "away")
    assert make() == ["environment 'tiny': making it again, because its interpreter is gone (tiny==1.0)"]
    assert ask("import inner; print(inner.version)") == "1.0"


@pytest.mark.slow
def test_two_processes_make_it_together() -> None:
    first, second = start_making(), start_making()
    messages = sorted(process.communicate(timeout=120)[0] for process in (first, second))
    assert messages[0] in ("done\n", "environment 'tiny': another orun process makes it\ndone\n")
    assert messages[1] == "environment 'tiny': making it, once for this machine (tiny==1.0)\ndone\n"


@pytest.mark.slow
def test_a_process_that_is_killed_leaves_nothing_that_passes_for_made(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested, answer = threading.Event(), threading.Event()

    class Waiting(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            requested.set()
            answer.wait(60)
            super().do_GET()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Waiting, directory=str(index))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("PIP_FIND_LINKS", f"http://127.0.0.1:{server.server_port}/")
        process = start_making()
        assert requested.wait(60)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
        folder = venvs.locate_folder(TINY)
        assert venvs.describe_damage(folder) == "it is not there"
        answer.set()
        messages = make()
        server.shutdown()
    # pip goes on alone, and is waited for
    assert messages[-1] == "environment 'tiny': making it, once for this machine (tiny==1.0)"
    assert venvs.describe_damage(folder) == ""


def find_module(environment: Path) -> Path:
    """The file of the package `inner`."""
    (module,) = venvs.locate_prefix(environment).glob("lib/python3.*/site-packages/inner.py")
    return module


def change_version(module: Path) -> None:
    module.with_name("inner-1.0.dist-info").rename(module.with_name("inner-2.0.dist-info"))


def edit(path: Path) -> None:
    path.write_text("version = '6.6'\n")


def edit_with_its_time(path: Path) -> None:
    state = path.stat()
    path.write_text("version = '6.6.6'\n")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (edit, "lib/{python}/site-packages/inner.py was changed"),
        (edit_with_its_time, "lib/{python}/site-packages/inner.py was changed"),
        (Path.unlink, "lib/{python}/site-packages/inner.py is gone"),
        (change_version, "inner is 2.0 instead of 1.0"),
    ],
)
def test_what_was_changed_by_hand_is_noticed(environment_folder: Path, harm: Callable[[Path], None], why: str) -> None:
    module = find_module(environment_folder)
    harm(module)
    assert venvs.describe_damage(environment_folder) == why.format(python=module.parents[1].name)


@pytest.mark.slow
@pytest.mark.parametrize("harm", [edit, change_version])
def test_what_was_changed_is_made_again(environment_folder: Path, harm: Callable[[Path], None]) -> None:
    harm(find_module(environment_folder))
    why = venvs.describe_damage(environment_folder)
    assert make() == [f"environment 'tiny': making it again, because {why} (tiny==1.0)"]
    assert venvs.describe_damage(environment_folder) == ""
    assert ask("import inner; print(inner.version)") == "1.0"


def test_a_copy_is_as_good_with_caches_beside_the_code(
    once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(once, tmp_path / "copy", symlinks=True, copy_function=shutil.copyfile)
    monkeypatch.setenv("ORUN_ENVIRONMENTS", str(tmp_path / "copy"))
    folder = venvs.locate_folder(TINY)
    for file in venvs.locate_prefix(folder).glob("lib/python3.*/site-packages/*.py"):
        os.utime(file, (1, 1))
        file.with_name(f"{file.stem}.cache").touch()
    assert make() == []


@pytest.mark.parametrize(
    ("text", "why"), [(None, "gone"), ("{", "damaged"), ("[]", "damaged"), ('{"a": 1}', "damaged")]
)
def test_a_list_of_files_that_cannot_be_used_is_damage(environment_folder: Path, text: str | None, why: str) -> None:
    listed = environment_folder / venv_contents.LIST
    if text is None:
        listed.unlink()
    else:
        listed.write_text(text)
    assert venvs.describe_damage(environment_folder) == f"the list of its files is {why}"


@pytest.mark.slow
def test_what_else_only_installs_is_there_again_when_it_was_asked_for(index: Path) -> None:
    wheel(index, "built", "1.0", ["setuptools"])
    wheel(index, "setuptools", "90.0")
    environment = Environment("built", ("built==1.0",))
    make(environment)
    assert venvs.read_packages(environment) == {"built": "1.0", "setuptools": "90.0"}
    shutil.rmtree(venvs.locate_prefix(venvs.locate_folder(environment)))
    make(environment)
    assert ask("import setuptools; print(setuptools.version)", environment) == "90.0"


@pytest.mark.slow
def test_a_package_from_a_url_comes_from_there_again(index: Path) -> None:
    wheel(index / "apart", "alone", "1.0", ["inner"])
    with ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(SimpleHTTPRequestHandler, directory=str(index / "apart"))
    ) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/alone-1.0-py3-none-any.whl"
        environment = Environment("apart", (f"alone @ {url}",))
        make(environment)
        shutil.rmtree(venvs.locate_prefix(venvs.locate_folder(environment)))
        make(environment)
        server.shutdown()
    digest = hashlib.sha256((index / "apart" / "alone-1.0-py3-none-any.whl").read_bytes()).hexdigest()
    assert venvs.read_packages(environment) == {"alone": f"1.0+sha256.{digest[:16]}", "inner": "1.0"}
    assert ask("import alone, inner; print(alone.version, inner.version)", environment) == "1.0 1.0"


@pytest.mark.slow
def test_settings_of_pip_that_would_leave_it_empty_are_ignored_or_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PIP_DRY_RUN", "PIP_NO_DEPS"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("PIP_ROOT", str(tmp_path / "elsewhere"))
    make()
    assert venvs.read_packages(TINY) == {"inner": "1.0", "tiny": "1.0"}
    (tmp_path / "pip.conf").write_text("[install]\ndry-run = true\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    with pytest.raises(EnvironmentFailed) as caught:
        make(Environment("e", ("inner==1.0",)))
    assert str(caught.value) == (
        "environment 'e' cannot be made\n"
        "  pip ended well, and inner did not come to be there: its settings lead elsewhere\n"
        f"  hint: see them: {sys.executable} -m pip config list"
    )


def test_a_folder_whose_path_has_a_colon_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORUN_ENVIRONMENTS", str(tmp_path / "a:b"))
    with pytest.raises(EnvironmentFailed) as caught:
        make()
    assert str(caught.value) == (
        "environment 'tiny' cannot be made\n"
        "  the path of its folder has a ':' in it, which parts the paths of PYTHONPATH: "
        f"{venvs.locate_folder(TINY)}\n"
        "  hint: choose another folder: export ORUN_ENVIRONMENTS=FOLDER"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("retries", "cause"),
    [
        ("0", "no package index offers it for this Python, or none could be reached"),
        ("1", "a package index could not be reached"),
    ],
)
def test_an_index_that_cannot_be_reached_is_told(monkeypatch: pytest.MonkeyPatch, retries: str, cause: str) -> None:
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", retries)
    with pytest.raises(EnvironmentFailed) as caught:
        make()
    assert caught.value.why.splitlines() == [
        "ERROR: Could not find a version that satisfies the requirement tiny==1.0 (from versions: none)",
        "ERROR: No matching distribution found for tiny==1.0",
        f"{cause}; PIP_INDEX_URL and PIP_FIND_LINKS name others",
    ]


@pytest.mark.slow
def test_without_pip_the_one_that_python_brings_along_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    venv_builder.make(TINY)
    assert venvs.read_packages(TINY) == {"inner": "1.0", "tiny": "1.0"}


def test_where_there_is_no_pip_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    monkeypatch.setattr("venv.EnvBuilder._setup_pip", _without_ensurepip)
    with pytest.raises(EnvironmentFailed) as caught:
        make()
    assert str(caught.value) == (
        "environment 'tiny' cannot be made: pip is missing\n"
        "  neither is it beside orun, nor does this Python bring it along: No module named ensurepip\n"
        f"  hint: install pip beside orun: {sys.executable} -m ensurepip, or uv pip install pip"
    )


def _without_ensurepip(*_: object) -> None:
    raise ModuleNotFoundError("No module named ensurepip")


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ORUN_ENVIRONMENTS", str(tmp_path / "file"))
    with pytest.raises(StoreError, match="cannot make an environment"):
        make()


@pytest.mark.slow
def test_a_lock_file_is_installed_by_its_hashes(index: Path) -> None:
    with pytest.raises(EnvironmentFailed) as caught:
        make(Environment("e", (f"inner==1.0 --hash=sha256:{'0' * 64}",)))
    assert "THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE" in caught.value.why
    digest = hashlib.sha256((index / "inner-1.0-py3-none-any.whl").read_bytes()).hexdigest()
    locked = Environment("e", (f"inner==1.0 --hash=sha256:{digest}",))
    assert make(locked) == ["environment 'e': making it, once for this machine (inner==1.0)"]


def test_a_record_that_is_no_record_counts_for_nothing(environment_folder: Path) -> None:
    venvs.locate_record(TINY).write_text("{")
    assert (venvs.is_known(TINY), venvs.describe_damage(environment_folder)) == (False, "it is not there")
