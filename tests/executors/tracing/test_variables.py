from __future__ import annotations

from collections.abc import Iterator

import pytest

from orun.executors import LocalExecutor
from tests.executors.support import Project, result


@pytest.fixture(scope="module")
def executor() -> Iterator[LocalExecutor]:
    with pytest.MonkeyPatch.context() as patch, LocalExecutor() as executor:
        patch.setenv("ORUN_TEST", "on")
        patch.setenv("LANG", "C.UTF-8")  # in the plain C locale Python sets LC_CTYPE
        for name in ("LC_ALL", "LC_CTYPE", "LC_TIME"):
            patch.delenv(name, raising=False)
        yield executor


@pytest.mark.parametrize(
    ("code", "variables"),
    [
        ("os.environ['ORUN_TEST']", {"ORUN_TEST": "on"}),
        ("os.environ.get('ORUN_TEST')", {"ORUN_TEST": "on"}),
        ("os.getenv('ORUN_TEST')", {"ORUN_TEST": "on"}),
        ("'ORUN_TEST' in os.environ", {"ORUN_TEST": "on"}),
        ("os.environb[b'ORUN_TEST']", {"ORUN_TEST": "on"}),
        ("os.getenvb(b'ORUN_NOT_SET')", {"ORUN_NOT_SET": None}),
        ("os.environ.get('ORUN_NOT_SET', 'x')", {"ORUN_NOT_SET": None}),
        ("os.environ.setdefault('ORUN_NOT_SET', 'x')\nos.environ['ORUN_NOT_SET']", {"ORUN_NOT_SET": None}),
        ("os.environ['ORUN_TEST'] = 'off'\nos.environ['ORUN_TEST']", {}),
        ("del os.environ['ORUN_TEST']\nos.environ.get('ORUN_TEST')", {}),
        ("os.environ.pop('ORUN_TEST')", {"ORUN_TEST": "on"}),
        ("os.path.expandvars('$ORUN_TEST/x')", {"ORUN_TEST": "on"}),
        ("import string\nstring.Template('$ORUN_TEST').substitute(os.environ)", {"ORUN_TEST": "on"}),
        ("{**os.environ}; dict(os.environ); os.environ.copy(); os.environ | {}", {}),
        ("os.waitpid(os.posix_spawnp('true', ['true'], os.environ), 0)", {}),
        ("list(os.environ.values())", None),
        ("import subprocess\nsubprocess.run(['true'], env={**os.environ, 'X': '1'}, check=True)", {}),
        ("[value for name, value in os.environ.items() if name == 'ORUN_TEST']", None),
        ("import locale, tempfile, shutil\ntempfile.gettempdir(); shutil.which('ls'); os.path.expanduser('x')", {}),
        ("import locale\nlocale.setlocale(locale.LC_TIME, 'C'); locale.str(1.5)", {}),
        ("import locale\nlocale.setlocale(locale.LC_TIME)", {"LC_ALL": None, "LC_CTYPE": None, "LANG": "C.UTF-8"}),
        ("import locale\nlocale.getlocale()", {"LC_ALL": None, "LC_CTYPE": None, "LANG": "C.UTF-8"}),
        ("import locale\nlocale.setlocale(locale.LC_TIME, '')", {"LC_ALL": None, "LC_TIME": None, "LANG": "C.UTF-8"}),
    ],
)
def test_what_the_project_s_code_looks_up(
    executor: LocalExecutor, project: Project, code: str, variables: dict[str, str | None] | None
) -> None:
    body = "\n".join(f"    {line}" for line in code.splitlines())
    project.write("pipelines/mine.py", f"import os\ndef f(context):\n{body}\n")
    environment = result(executor, project.job("mine.py:f")).environment
    if variables is None:  # going through all of them is looking up all of them
        assert environment["ORUN_TEST"] == "on"
        assert "PATH" in environment
    else:
        assert environment == variables


def test_what_a_helper_of_the_project_looks_up(executor: LocalExecutor, project: Project) -> None:
    project.write("pipelines/mine.py", "import helper\nfrom os import environ\ndef f(context): environ.get('ORUN_B')\n")
    project.write("pipelines/helper.py", "import os\nos.getenv('ORUN_A')\n")
    assert result(executor, project.job("mine.py:f")).environment == {"ORUN_A": None, "ORUN_B": None}
