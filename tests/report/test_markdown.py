"""Markdown for pull requests and step summaries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from orun.report.markdown import escape, markdown

from .support import EXPORT, GATE_FAILED, INT8, PASSED, crashed


def test_a_run_whose_gate_failed() -> None:
    assert markdown(replace(GATE_FAILED, stages=(EXPORT, INT8, GATE_FAILED.stages[-1]))) == (
        """\
## bert

failed: 3 stages (1 blocked, 1 built, 1 cached), 2 of 4 gates passed, 1 failed, 1 undecided, 12.3 s; exit 1

### Gates

| gate | measured | 95 % interval | threshold | verdict |
| --- | --- | --- | --- | --- |
| accuracy cosine.min | 0.9812 |  | min 0.97 | passed |
| accuracy recall\\_at\\_1 | 0.9 % | -0.3 % to 2.1 % | max\\_drop 1% | undecided |
| latency p50 | 8.1 % | 6.2 % to 9.9 % | max\\_regression 5% | failed |
| latency speedup | 2.15x | 2.11x to 2.20x | min 1.5 | passed |

- pipelines/bert.yaml:32:7: gate undecided: accuracy recall\\_at\\_1 max\\_drop 1%: \
the drop is 0.9 % (-0.3 % to 2.1 %), 1% allowed: 2100 more examples would decide it
- pipelines/bert.yaml:37:7: gate failed: latency p50 max\\_regression 5%: \
8.1 % slower than the accepted baseline (6.2 % to 9.9 %), 5% allowed

### Stages

| stage | result | time | size | metrics |
| --- | --- | --- | --- | --- |
| export | cached |  | 90.4 MB |  |
| int8 | built: parameter per\\_channel: false -\\> true (and 1 more) | 3.25 s | 22.9 MB | nodes 311 |
| release | blocked: a gate of latency failed |  |  |  |
"""
    )


def test_a_gate_that_fails_because_it_is_undecided_says_so() -> None:
    unsure = replace(GATE_FAILED.verdicts[1], fails=True)
    row = "| accuracy recall\\_at\\_1 | 0.9 % | -0.3 % to 2.1 % | max\\_drop 1% | undecided (fails the run) |"
    assert row in markdown(replace(PASSED, exit_code=4, verdicts=(unsure,)))


def test_the_log_of_a_failed_stage_is_fenced_whatever_is_in_it(tmp_path: Path) -> None:
    log = tmp_path / "int8.log"
    log.write_text("```\nSegmentation fault\n````\n")
    assert markdown(crashed(log)).endswith(
        f"""
| release | blocked: int8 failed |  |  |  |

`````text
stage int8 failed: its process died of signal 11 (SIGSEGV)
  nothing of it was stored
  hint: orun run pipelines/bert.yaml --only int8
  log: {log}
  last 3 lines of its log:
  | ```
  | Segmentation fault
  | ````
`````
"""
    )


def test_text_is_shown_as_it_is() -> None:
    assert escape("a|b <c> *d* `e`\n_f_ [g]") == "a\\|b \\<c\\> \\*d\\* \\`e\\` \\_f\\_ \\[g\\]"
