"""Variables and targets that nothing in a file uses, which may have been meant for another name."""

from __future__ import annotations

from pathlib import Path

from tests.pipeline.support import EXPORT, list_notes, write

CPU = "{providers: [CPUExecutionProvider]}"


def test_each_is_told_with_what_may_be_meant(tmp_path: Path) -> None:
    text = f"""\
vars: {{batch: 1, bacth: 8, other: 2}}
targets:
  cpu: {CPU}
  labtop: {CPU}
  laptop: {CPU}
  npu: {CPU}
stages:
{EXPORT}  plain: {{uses: measure/latency, needs: export, with: {{batch: "${{vars.batch}}"}}}}
  there: {{uses: measure/latency, needs: export, with: {{target: laptop}}}}
"""
    assert list_notes(tmp_path, text) == [
        "p.yaml:1:18: nothing uses variable 'bacth'; did you mean batch?",
        "p.yaml:1:28: nothing uses variable 'other'",
        "p.yaml:3:3: nothing uses target 'cpu'; plain names no target and runs without its options: `target: cpu`",
        "p.yaml:4:3: nothing uses target 'labtop'; did you mean laptop?",
        "p.yaml:6:3: nothing uses target 'npu'",
    ]


def test_what_is_used_in_any_way_is_not(tmp_path: Path) -> None:
    text = f"""\
vars:
  size: &size {{n: 2}}
  count: 3
  total: "${{vars.count}}"
targets:
  laptop: {CPU}
  phone: {CPU}
stages:
{EXPORT}  there:
    uses: measure/latency
    needs: {{model: export, reference: export}}
    with: {{target: laptop, reference_target: phone, shape: *size, batch: "${{vars.total}}"}}
"""
    assert list_notes(tmp_path, text) == []


def test_what_comes_from_a_file_that_is_extended_may_be_for_others(tmp_path: Path) -> None:
    write(tmp_path, f"vars: {{batch: 1}}\ntargets: {{laptop: {CPU}}}\nstages:\n{EXPORT}", "base.yaml")
    text = "extends: base.yaml\nvars: {bach: 2}\nstages: {}\n"
    assert list_notes(tmp_path, text) == ["p.yaml:2:8: nothing uses variable 'bach'"]
