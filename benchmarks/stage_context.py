"""Context of a stage that a benchmark calls in its own process."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from orun.stages.contract import Context


def make_context(
    stage: str, root: Path, output: Path, inputs: Mapping[str, Path] | None = None, provenance: Path | None = None
) -> Context:
    """Return the context of a stage without a target and with seed 0.

    Args:
        stage: its name, also of its log.
        root: the folder that paths in parameters are relative to.
        output: the folder of its output.
        inputs: folder of each input.
        provenance: file with its history; None for none.
    """
    return Context(
        stage=stage,
        inputs=inputs or {},
        output=output,
        root=root,
        target=None,
        seed=0,
        timeout=None,
        provenance=provenance,
        open_log=lambda: logging.getLogger(stage),
        progress=lambda *_: None,
    )
