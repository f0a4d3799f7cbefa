"""JSON for machines: one document."""

from __future__ import annotations

import json
from typing import Any

from orun.core.serialization import encode
from orun.errors import OrunError, PipelineError


def dumps(value: Any) -> str:
    """The JSON text of plain data or a record."""
    return json.dumps(encode(value), indent=2, ensure_ascii=False, allow_nan=False)


def error_document(error: OrunError, exit_code: int) -> dict[str, Any]:
    """What went wrong, for `--json`."""
    told: dict[str, Any] = {"type": type(error).__name__, "exit_code": exit_code, "what": error.what}
    if isinstance(error, PipelineError):
        return {"error": {**told, "problems": error.problems}}
    return {"error": told | {name: text for name, text in (("why", error.why), ("hint", error.hint)) if text}}
