"""Markdown for pull requests and step summaries."""

from __future__ import annotations

import html
import re
from pathlib import Path

from markdown_it import MarkdownIt

from orun.blame.diagnosis import Diagnosis
from orun.core.run_record import ChangedSetting
from orun.core.serialization import replace
from orun.core.source_location import Position
from orun.core.verdict import Verdict
from orun.report.document import dumps
from orun.report.markdown import render_markdown
from orun.text.markdown import escape
from tests.facts import reasons_of

from .support import EXPORT, GATE_FAILED, INT8, PASSED, SLOWER, SPEEDUP, crashed


def test_a_run_whose_gate_failed() -> None:
    assert render_markdown(replace(GATE_FAILED, stages=(EXPORT, INT8, GATE_FAILED.stages[-1]))) == (
        """\
## bert

failed: 3 stages (1 blocked, 1 built, 1 cached), 2 of 4 gates passed, 1 failed, 1 undecided, 12.3 s; exit 1

### Release checklist

- [x] **accuracy cosine.min** min 0.97: 0.9812
- [ ] **accuracy recall\\_at\\_1** max\\_drop 1%: 0.9 % drop (-0.3 % to 2.1 %), **undecided**: \
the drop is 0.9 % (-0.3 % to 2.1 %), 1% allowed: 2100 more examples would decide it (pipelines/bert.yaml:32:7)
- [ ] **latency p50** max\\_regression 5%: 8.1 % worse (6.2 % to 9.9 %), **failed**: \
8.1 % slower than the accepted baseline (6.2 % to 9.9 %), 5% allowed (pipelines/bert.yaml:37:7)
- [x] **latency speedup** min 1.5: 2.15x (2.11x to 2.20x)

### Stages

| stage | result | time | size | metrics |
| --- | --- | --- | --- | --- |
| export | cached |  | 90.4 MB |  |
| int8 | built: parameter per\\_channel: false -\\> true (and 1 more) | 3.25 s | 22.9 MB | nodes 311 |
| release | blocked: a gate of latency failed |  |  |  |

_run 20260921-141320-1f3c on builder_
"""
    )


def test_what_was_found_out_and_what_it_was_a_run_of(tmp_path: Path) -> None:
    """A reviewer has no other report at hand."""
    named = replace(GATE_FAILED, folder=tmp_path, commit="1f0c9a2b7d3e4f5a6b7c", orun="0.2.0")
    diagnosis = Diagnosis(
        "latency p50 max_regression 5%", "latency", "p50", "s", "`int8` took 2 ms longer", stopped="no time"
    )
    (tmp_path / "blame.json").write_text(dumps({"blame": [diagnosis]}), "utf-8")
    text = render_markdown(named)
    assert "\n### Culprit\n\n- **latency p50 max\\_regression 5%**: \\`int8\\` took 2 ms longer; no time\n\n" in text
    assert text.endswith("\n\n_run 20260921-141320-1f3c on builder, commit 1f0c9a2b7d3e, orun 0.2.0_\n")


def test_a_failed_gate_says_what_changed_since_the_accepted_release() -> None:
    changes = tuple(ChangedSetting("int8", f"p{number}", "false", "[1]") for number in range(7))
    (note,) = (
        line for line in render_markdown(replace(GATE_FAILED, changed_settings=changes)).split("\n") if "since" in line
    )
    named = ", ".join(f"int8.p{number} false -\\> \\[1\\]" for number in range(5))
    assert note == f"since the accepted release: {named}, and 2 more"
    assert "since" not in render_markdown(replace(PASSED, changed_settings=changes))


def test_a_gate_that_fails_because_it_is_undecided_says_so() -> None:
    unsure = replace(GATE_FAILED.verdicts[1], fails=True)
    task = (
        "**accuracy recall\\_at\\_1** max\\_drop 1%: 0.9 % drop (-0.3 % to 2.1 %), **undecided** (fails the run):"
        " the drop"
    )
    assert f"- [ ] {task}" in render_markdown(replace(PASSED, exit_code=4, verdicts=(unsure,)))


ANY = Verdict(
    "latency", "any of 2", "any", "", "passed", False, None, "", None,
    reasons_of("passed: speedup min 1.5; failed: p50 max 12ms")[0],
    Position("pipelines/bert.yaml", 39, 7),
)  # fmt: skip


def test_members_of_a_group_stand_below_it() -> None:
    members = tuple(replace(verdict_of_member, fails=False, depth=1) for verdict_of_member in (SLOWER, SPEEDUP))
    text = render_markdown(replace(PASSED, verdicts=(ANY, *members)))
    assert "5 stages (3 built, 2 cached), 1 gate passed, 12.3 s" in text
    assert (
        "### Release checklist\n\n"
        "- [x] **latency any of 2**\n"
        "  - [ ] **latency p50** max\\_regression 5%: 8.1 % worse (6.2 % to 9.9 %), failed\n"
        "  - [x] **latency speedup** min 1.5: 2.15x (2.11x to 2.20x)\n"
    ) in text


def test_a_group_that_failed_says_why_its_members_did() -> None:
    failed = replace(ANY, outcome="failed", fails=True, finding=reasons_of("failed: p50 max_regression 5%")[0])
    text = render_markdown(replace(PASSED, exit_code=1, verdicts=(failed, replace(SLOWER, fails=False, depth=1))))
    assert (
        "- [ ] **latency any of 2**, **failed**: failed: p50 max\\_regression 5% (pipelines/bert.yaml:39:7)\n"
        "  - [ ] **latency p50** max\\_regression 5%: 8.1 % worse (6.2 % to 9.9 %), **failed**: "
        "8.1 % slower than the accepted baseline (6.2 % to 9.9 %), 5% allowed (pipelines/bert.yaml:37:7)\n"
    ) in text


def test_the_log_of_a_failed_stage_is_fenced_whatever_is_in_it(tmp_path: Path) -> None:
    log = tmp_path / "int8.log"
    log.write_text("```\nSegmentation fault\n````\n")
    assert render_markdown(crashed(log)).endswith(
        f"""
| release | blocked: int8 failed |  |  |  |

`````text
stage int8 failed: its process died of signal 11 (SIGSEGV)
  nothing of it was stored
  hint: orun pipelines/bert.yaml --only int8
  log: {log}
  last 3 lines of its log:
  | ```
  | Segmentation fault
  | ````
`````

_run 20260921-141320-1f3c on builder_
"""
    )


def test_text_is_shown_as_it_is() -> None:
    assert escape("a|b <c> *d* `e`\n_f_ [g]") == "a\\|b \\<c\\> \\*d\\* \\`e\\` \\_f\\_ \\[g\\]"


ODD = (
    "a|b", "<x>&amp;y", "a&b&lt;", "~~s~~", "*b*", "$x^2$", "`t`", "[l](http://x)", "<!-- c -->",
    "end\\", "ünï 模型 🚀",
)  # fmt: skip


def test_odd_names_are_read_back_as_they_are() -> None:
    """By a reader of GitHub's Markdown, of which formulas are the only part that is missing."""
    verdicts = tuple(replace(SPEEDUP, metric=f"accuracy[label={odd}]", finding=reasons_of(odd)[0]) for odd in ODD)
    document = MarkdownIt("gfm-like", {"linkify": False}).render(render_markdown(replace(PASSED, verdicts=verdicts)))
    assert re.findall("<strong>(.*)</strong>", document) == [
        html.escape(f"latency accuracy[label={odd}]") for odd in ODD
    ]
    assert escape("$x^2$") == "\\$x^2\\$"
    assert len(re.findall("<tr>", document)) == 1 + len(PASSED.stages)
