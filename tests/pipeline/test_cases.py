"""The files of tests/cases: what is said of the bad ones, what becomes of the good ones.

After a change that is meant: `python -m tests.cases.regenerate`, and read the difference.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft7Validator

from orun.pipeline import schema
from tests.cases.support import INVALID, VALID, cases, drawn, message

BAD = cases(INVALID)
GOOD = cases(VALID)


def stem(file: Path) -> str:
    return file.stem


@pytest.mark.parametrize("file", BAD, ids=stem)
def test_the_whole_message_of_a_bad_file(file: Path) -> None:
    assert message(file) == file.with_suffix(".txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("file", GOOD, ids=stem)
def test_the_graph_of_a_good_file(file: Path) -> None:
    assert drawn(file) == file.with_suffix(".txt").read_text(encoding="utf-8")


def test_there_are_many() -> None:
    assert len(BAD) >= 45
    assert not {file.stem for file in BAD} ^ {file.stem for file in INVALID.glob("*.txt")}
    assert not {file.stem for file in GOOD} ^ {file.stem for file in VALID.glob("*.txt")}


def test_the_committed_schema_is_current() -> None:
    committed = Path(__file__).parents[2] / "schema" / "pipeline.schema.json"
    assert committed.read_text(encoding="utf-8") == json.dumps(schema.build(), indent=2, ensure_ascii=False) + "\n", (
        "python -m orun.pipeline.schema > schema/pipeline.schema.json"
    )


def test_the_schema_is_a_schema() -> None:
    Draft7Validator.check_schema(schema.build())
