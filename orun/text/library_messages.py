"""Messages of libraries in a few lines."""

from __future__ import annotations

from orun.text.lists import cut

LINES, LONGEST = 3, 303  # lines of a message, and characters of each


def shorten_message(message: str) -> str:
    """Return the first lines of a message, or of TensorFlow's the reason behind its long listing of files."""
    lines = [line.strip() for line in message.splitlines() if line.strip()] or ["no message"]
    if any(line.startswith("Detected at node") for line in lines):
        listed = [number for number, line in enumerate(lines) if line.startswith('File "')]
        lines = lines[max(listed, default=-1) + 1 :]
    return "\n".join(cut(line, LONGEST) for line in lines[:LINES])
