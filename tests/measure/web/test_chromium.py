"""Messages of a page, with a program that speaks the protocol in the place of Chromium."""

from __future__ import annotations

import sys
from pathlib import Path

from orun.measure.web.chromium import Chromium

BROWSER = """
import json, os, sys

EVENTS = [
    ("Runtime.consoleAPICalled", {"type": "log", "args": [{"type": "string", "value": "hello"}]}),
    ("Runtime.consoleAPICalled", {"type": "error", "args": [
        {"type": "string", "value": "failed:"}, {"type": "object", "description": "Error: no model"},
    ]}),
    ("Log.entryAdded", {"entry": {"level": "info", "text": "loaded"}}),
    ("Log.entryAdded", {"entry": {"level": "error", "text": "404"}}),
    ("Runtime.exceptionThrown", {"exceptionDetails": {"text": "Uncaught"}}),
]
RESULTS = {
    "Target.createTarget": {"targetId": "1"},
    "Target.attachToTarget": {"sessionId": "2"},
    "Runtime.evaluate": {"result": {"value": 3}},
}

def send(message):
    os.write(4, json.dumps(message).encode() + b"\\0")

buffer = b""
while True:
    while b"\\0" not in buffer:
        buffer += os.read(3, 65536)
    text, _, buffer = buffer.partition(b"\\0")
    message = json.loads(text)
    if message["method"] == "Runtime.evaluate":
        for method, params in EVENTS:
            send({"method": method, "params": params})
    send({"id": message["id"], "result": RESULTS.get(message["method"], {})})
    if message["method"] == "Browser.close":
        break
"""


def test_errors_of_a_page_are_heard(tmp_path: Path) -> None:
    program = tmp_path / "chromium"
    program.write_text(f"#!{sys.executable}{BROWSER}", "utf-8")
    program.chmod(0o755)
    with Chromium(str(program), tmp_path / "profile") as tab:
        assert tab.evaluate("1 + 2") == 3
        assert tab.complaints == ["failed: Error: no model", "404", "Uncaught"]
