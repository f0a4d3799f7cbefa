"""The known entries of a session against the installed ONNX Runtime."""

from __future__ import annotations

import re
from pathlib import Path

from onnxruntime.capi import onnxruntime_pybind11_state as library

from orun.providers.session_entries import SESSION_ENTRIES

ENTRY = re.compile(rb"(?<=\x00)(?:session|optimization|mlas|memory)\.[a-z_0-9.]+[a-z0-9](?=\x00)")


def test_every_session_entry_that_stands_whole_in_the_library_is_known() -> None:
    entries = {match.decode() for match in ENTRY.findall(Path(library.__file__).read_bytes())}
    assert len(entries) > 50
    assert entries - {*SESSION_ENTRIES} == set()
