"""Projects whose stages each tell what they came upon: one run shows many ways to ask at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from orun.core.run_record import RunResult
from tests.facts import describe_reasons
from tests.project import Project, built

CODE = """
BEFORE

from orun import stage


@stage(inputs={}, output="files")
def tell(context):
    (context.output / "text").write_text(str(VALUE))
"""


def code_of(value: str, before: str = "") -> str:
    """The code of a stage that tells the value of an expression; what stands before its function."""
    return CODE.replace("BEFORE", before).replace("VALUE", value)


def make_expression_stages(folder: Path, code: Mapping[str, str]) -> Project:
    """Write a project of stages by their names: each is the function `tell` of its code, in a file of its name."""
    lines = (f"  {stage}: {{uses: './{stage}.py:tell'}}\n" for stage in code)
    project = Project.make(folder / "project", f"name: text\nstages:\n{''.join(lines)}")
    for stage, text in code.items():
        project.write(f"{stage}.py", text)
    return project


def why(result: RunResult) -> dict[str, tuple[str, ...]]:
    """The reasons of each stage that ran."""
    return {stage: describe_reasons(result[stage].reasons) for stage in built(result)}


def texts(project: Project, stages: Collection[str]) -> dict[str, str]:
    """What each stage told last."""
    return {stage: project.text(stage) for stage in stages}
