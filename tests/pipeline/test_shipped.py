"""The pipelines that come with orun are whole, those that are too long to run in tests included."""

from __future__ import annotations

from pathlib import Path

import pytest

from orun.pipeline import load
from orun.stages.registry import find

FILES = sorted((Path(__file__).parents[2] / "pipelines").glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_pipeline_of_ours_is_valid_and_names_all_its_parameters(file: Path) -> None:
    pipeline = load(file)
    assert pipeline.name == file.stem
    assert pipeline.stages
    assert pipeline.notes == ()
    for stage in pipeline.stages:  # what the file leaves out is in the key as well: another default is another result
        assert list(stage.params) == [param.name for param in find(stage.uses, pipeline.root).params], stage.id
