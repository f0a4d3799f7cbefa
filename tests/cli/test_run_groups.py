"""Gates in groups, of a stage with a matrix: each group stands above its own members."""

from __future__ import annotations

from pathlib import Path

from .conftest import CommandLine, steady

GROUPS = """\
stages:
  write:
    uses: ./words.py:write
    matrix: {text: [a, bb, ccc]}
    gate:
      any:
        - length: {max: 1}
        - length: {min: 3}
"""


def test_a_group_of_each_of_a_matrix(orun: CommandLine, project: Path) -> None:
    (project / "groups.yaml").write_text(GROUPS)
    shown = orun("groups.yaml", "-k")
    assert (shown.code, shown.err) == (1, "")
    gates = steady(shown.out[shown.out.index("gate  ") :]).splitlines()[:-1]
    assert gates == [
        "gate  measured  threshold  verdict",
        "write[text=a] any of 2  -  passed",
        "  write[text=a] length  1  max 1  passed",
        "  write[text=a] length  1  min 3  failed",
        "write[text=bb] any of 2  -  failed",
        "  write[text=bb] length  2  max 1  failed",
        "  write[text=bb] length  2  min 3  failed",
        "write[text=ccc] any of 2  -  passed",
        "  write[text=ccc] length  3  max 1  failed",
        "  write[text=ccc] length  3  min 3  passed",
        "",
        "groups.yaml:6:7: gate failed: write[text=bb] any of 2: failed: length max 1, length min 3",
        "  hint: to see what it rests on: orun explain groups.yaml 'write[text=bb]'",
        "groups.yaml:7:20: gate failed: write[text=bb] length max 1: length is 2, above the maximum of 1",
        "groups.yaml:8:20: gate failed: write[text=bb] length min 3: length is 2, below the minimum of 3",
        "",
    ]


def test_the_bare_name_of_a_matrix(orun: CommandLine, project: Path) -> None:
    """It is not taken for the name of a similar stage."""
    (project / "groups.yaml").write_text(GROUPS.replace("stages:\n", "stages:\n  writ: {uses: ./words.py:write}\n"))
    orun("groups.yaml", "-k", "-q", "--no-blame")
    stages = [f"write[text={text}]" for text in ("a", "bb", "ccc")]
    assert orun("blame", "groups.yaml", "write.length").err == (
        "error: there is no stage or gate 'write.length' in groups.yaml\n"
        f"  did you mean one of {', '.join(f'{stage}.length' for stage in stages)}?\n  hint: orun graph groups.yaml\n"
    )
    assert orun("store", "pin", "rc", "groups/write").err == (
        "error: no artifact 'groups/write' is in the store\n"
        f"  did you mean one of {', '.join(f'groups/{stage}' for stage in stages)}?\n"
        "  hint: orun store pin NAME 'groups/write[text=a]'\n"
    )
    assert orun("history", "write.length").err == (
        "error: no measurement of 'write.length'\n"
        f"  did you mean one of {', '.join(f'{stage}.length' for stage in stages)}?\n  hint: orun history\n"
    )
