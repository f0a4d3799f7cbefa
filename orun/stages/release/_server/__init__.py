"""Program that `release/server` copies into its folder, with the lock of its packages."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
FILES = ("runtime.py", "protocol.py", "rest.py", "batcher.py", "sample_log.py")
OWN = ("server.json", "requirements.lock", "Containerfile", "SERVING.md")  # that the kind writes itself
MODULES = (  # their code is in the key of the kind, which finds modules by their names
    "orun.stages.release._server.runtime",
    "orun.stages.release._server.protocol",
    "orun.stages.release._server.rest",
    "orun.stages.release._server.batcher",
    "orun.stages.release._server.sample_log",
)
LOCK = "requirements.lock"
# Its content is in the key too, by this line; a test says the digest after `make lock`.
LOCK_SHA256 = "c8c53fd8a0b5c17e9ff1c709413ac078d8d354311123c3e8cd74df47c9e00129"
