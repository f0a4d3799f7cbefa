"""Files that a stage left beside its output and reads again: a cache that outlives an edit."""

from __future__ import annotations

from pathlib import Path

from tests.project import Project

NOTE = (
    "it read {}, written beside its output by an earlier run: the content may come from code or data that has "
    "changed since; to build it anew, remove them and run again"
)
CACHED = """
import helper
from joblib import Memory
from orun import stage

memory = Memory(helper.FOLDER / "cache", verbose=0)


@memory.cache
def thrice(text):
    return helper.WORD + text


@stage(inputs={}, output="files")
def tell(context):
    (context.output / "text").write_text(thrice("!"))
"""


def test_what_an_earlier_run_of_a_stage_left_and_it_reads_is_said(tmp_path: Path) -> None:
    """Joblib goes by the text of the function alone: what an edited helper makes is not what its cache has."""
    project = Project.make(tmp_path / "project", "name: text\nstages:\n  tell: {uses: ./tell.py:tell}\n")
    project.write("tell.py", CACHED)
    helper = "from pathlib import Path\nFOLDER = Path(__file__).parent\nWORD = {!r}\n"
    project.write("helper.py", helper.format("one"))
    first = project.run()["tell"]
    assert first.notes == ()
    for word in ("two", "six"):
        project.write("helper.py", helper.format(word))
        result = project.run()["tell"]
        assert project.text("tell") == "one!"
        assert result.wrote == first.wrote
        assert result.notes == (NOTE.format(", ".join(first.wrote)),)
    assert project.run()["tell"].notes == result.notes, "it is of the stored result"
    for name in result.wrote:
        (project.folder / name).unlink()
    assert (project.run()["tell"].notes, project.text("tell")) == ((), "six!")
