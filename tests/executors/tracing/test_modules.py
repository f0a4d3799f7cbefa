from __future__ import annotations

from zipfile import ZipFile

import pytest

from orun.executors import LocalExecutor
from tests.executors.support import Project, failure, log_of, result


def names(project: Project, reads: dict[str, object]) -> dict[str, bool]:
    """Path below the project -> whether it was there."""
    return {path.removeprefix(f"{project.folder}/"): signature is not None for path, signature in reads.items()}


def test_every_module_of_the_project_however_deep(executor: LocalExecutor, project: Project) -> None:
    project.write("pipelines/mine.py", "import one\ndef f(context):\n    from package import inner\n")
    project.write("pipelines/one.py", "from two import *\n")
    project.write("pipelines/two.py", "")
    project.write("pipelines/unrelated.py", "")
    project.write("pipelines/package/__init__.py", "")
    project.write("pipelines/package/inner.py", "")
    job_result = result(executor, project.job("mine.py:f"))
    assert names(project, dict(job_result.reads)) == {
        "pipelines/mine.py": True,
        "pipelines/one.py": True,
        "pipelines/one/__init__.py": False,
        "pipelines/two.py": True,
        "pipelines/two/__init__.py": False,
        "pipelines/package/__init__.py": True,
        "pipelines/package/inner.py": True,
        "pipelines/package/inner/__init__.py": False,
    }


def test_where_a_module_was_looked_for_before_it_was_found(executor: LocalExecutor, project: Project) -> None:
    project.write("pipelines/data/mine.py", "import helper, graphlib, yaml\ndef f(context): pass\n")
    project.write("pipelines/helper.py", "")
    job_result = result(executor, project.job("data/mine.py:f"))
    assert names(project, dict(job_result.reads)) == {
        "pipelines/data/mine.py": True,
        "pipelines/data/helper.py": False,
        "pipelines/data/helper/__init__.py": False,
        "pipelines/helper.py": True,
        "pipelines/helper/__init__.py": False,
        "pipelines/data/yaml.py": False,
        "pipelines/data/yaml/__init__.py": False,
        "pipelines/yaml.py": False,
        "pipelines/yaml/__init__.py": False,
        "pipelines/data/graphlib.py": False,
        "pipelines/data/graphlib/__init__.py": False,
        "pipelines/graphlib.py": False,
        "pipelines/graphlib/__init__.py": False,
    }


def test_modules_elsewhere_in_the_project(executor: LocalExecutor, project: Project) -> None:
    library = project.write("src/shared/__init__.py", "from shared import deep").parent.parent
    project.write("src/shared/deep.py", "X = 3")
    project.write(
        "pipelines/mine.py",
        f"import sys\nsys.path.insert(0, {str(library)!r})\nimport shared\n"
        "def f(context): return {'x': shared.deep.X}\n",
    )
    job_result = result(executor, project.job("mine.py:f"))
    assert names(project, dict(job_result.reads)) == {
        "pipelines/mine.py": True,
        "src/shared/__init__.py": True,
        "src/shared/deep.py": True,
        "src/shared/deep/__init__.py": False,
    }
    assert not list(project.folder.rglob("__pycache__"))


def test_modules_of_the_user_s_outside_the_project(
    executor: LocalExecutor, project: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A checkout in development, or a folder of PYTHONPATH: what would be found before a module is noted."""
    first, second = tmp_path_factory.mktemp("first"), tmp_path_factory.mktemp("second")
    (second / "shared").mkdir()
    (second / "shared" / "__init__.py").write_text("from shared import deep")
    (second / "shared" / "deep.py").write_text("X = 3")
    code = f"import sys\nsys.path[:0] = [{str(first)!r}, {str(second)!r}]\nimport shared, yaml\n"
    project.write("pipelines/mine.py", f"{code}def f(context): return {{'x': shared.deep.X}}\n")
    reads = names(project, dict(result(executor, project.job("mine.py:f")).reads))
    assert {name: there for name, there in reads.items() if name.startswith("/")} == {
        f"{first}/shared/__init__.py": False,
        f"{first}/shared.py": False,
        f"{second}/shared/__init__.py": True,
        f"{second}/shared.py": False,
        f"{second}/shared/deep/__init__.py": False,
        f"{second}/shared/deep.py": True,
        f"{first}/yaml/__init__.py": False,
        f"{first}/yaml.py": False,
        f"{second}/yaml/__init__.py": False,
        f"{second}/yaml.py": False,
    }


def test_byte_code_without_a_source(executor: LocalExecutor, project: Project) -> None:
    import py_compile

    source = project.write("pipelines/compiled.py", "X = 5")
    py_compile.compile(str(source), cfile=str(source.with_suffix(".pyc")))
    source.unlink()
    project.write("pipelines/mine.py", "import compiled\ndef f(context): return {'x': compiled.X}\n")
    job_result = result(executor, project.job("mine.py:f"))
    assert names(project, dict(job_result.reads))["pipelines/compiled.pyc"]


def test_a_module_that_is_nowhere(executor: LocalExecutor, project: Project) -> None:
    project.write("pipelines/mine.py", "import nowhere\ndef f(context): pass\n")
    job = project.job("mine.py:f")
    error = failure(executor, job)
    assert error.problem == "f raised ModuleNotFoundError: No module named 'nowhere'"
    assert "mine.py" in log_of(job)


@pytest.mark.parametrize(
    "ask",
    [
        "try: import fast\nexcept ImportError: pass",
        "import importlib.util\nimportlib.util.find_spec('fast')",
        "import contextlib, importlib\nwith contextlib.suppress(ImportError): importlib.import_module('fast')",
    ],
)
def test_a_module_that_may_be_there(executor: LocalExecutor, project: Project, ask: str) -> None:
    project.write("pipelines/mine.py", f"{ask}\ndef f(context): pass\n")
    reads = names(project, dict(result(executor, project.job("mine.py:f")).reads))
    assert {name: there for name, there in reads.items() if "fast" in name} == {
        "pipelines/fast.py": False,
        "pipelines/fast/__init__.py": False,
    }


def test_a_module_that_a_package_may_have(executor: LocalExecutor, project: Project) -> None:
    project.write("pipelines/package/__init__.py", "try:\n    from . import fast\nexcept ImportError:\n    pass\n")
    project.write("pipelines/mine.py", "import package\ndef f(context): pass\n")
    reads = names(project, dict(result(executor, project.job("mine.py:f")).reads))
    assert reads["pipelines/package/fast.py"] is False
    assert reads["pipelines/package/fast/__init__.py"] is False


def test_what_libraries_alone_ask_for_is_not_the_project_s(executor: LocalExecutor, project: Project) -> None:
    project.write("pipelines/mine.py", "import http.server\ndef f(context): pass\n")
    reads = names(project, dict(result(executor, project.job("mine.py:f")).reads))
    assert reads == {"pipelines/mine.py": True, "pipelines/http.py": False, "pipelines/http/__init__.py": False}


@pytest.mark.slow
def test_a_script_and_an_archive_are_run_as_anywhere(executor: LocalExecutor, project: Project) -> None:
    """`runpy` and `zipimport` ask the path hooks about a file."""
    script = project.write("pipelines/script.py", "X = 3")
    with ZipFile(project.root / "archive.zip", "w") as archive:
        archive.writestr("zipped.py", "Y = 4")
    code = "import runpy, sys\nsys.path.insert(0, {archive!r})\nimport zipped\ndef f(context):\n"
    code += "    return {{'x': runpy.run_path({script!r})['X'], 'y': zipped.Y}}\n"
    project.write("pipelines/mine.py", code.format(archive=str(project.root / "archive.zip"), script=str(script)))
    job_result = result(executor, project.job("mine.py:f"))
    assert {name: metric.value for name, metric in job_result.metrics.items()} == {"x": 3, "y": 4}
    assert {"pipelines/script.py", "pipelines/archive.zip"} <= names(project, dict(job_result.reads)).keys()
