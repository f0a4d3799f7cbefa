"""Program of `release/serve-check` for an environment with ONNX Runtime and without orun: it imports nothing of orun.

    python -I serving.py BUNDLE MODEL QUESTIONS.npz REPLIES.npz PROVIDER...

Checks the bundle's files against its manifest, opens the model in the folder MODEL of it, answers what is asked
(`<case>/<input>`) into `<case>/<output>`, and prints a line of JSON about itself. Any problem is an uncaught exception:
its last line is told.
"""

import hashlib
import json
import sys
from pathlib import Path


def main(bundle: Path, model: str, questions: Path, replies: Path, providers: list[str]) -> None:
    """Serve the cases of a file."""
    import numpy as np
    import onnxruntime

    checked = check_files(bundle)
    session = onnxruntime.InferenceSession(str(bundle / model / "model.onnx"), providers=providers)
    if session.get_providers()[0] != providers[0]:
        raise RuntimeError(f"{providers[0]} was asked for, and {session.get_providers()[0]} was given")
    outputs = [output.name for output in session.get_outputs()]
    inputs = [item.name for item in session.get_inputs()]
    results = {}
    with np.load(questions) as cases:
        for number in sorted({int(name.split("/", 1)[0]) for name in cases}):
            feed = {name: cases[f"{number}/{name}"] for name in inputs}
            values = session.run(outputs, feed)
            for name, value in zip(outputs, values, strict=True):
                results[f"{number}/{name}"] = (
                    value.astype(np.str_) if value.dtype == object else value
                )  # without pickle
    np.savez(replies, **results)
    report = {"onnxruntime": onnxruntime.__version__, "providers": session.get_providers(), "files": checked}
    sys.stdout.write(f"{json.dumps(report)}\n")


def check_files(bundle: Path) -> int:
    """Return the number of files in the manifest; raise ValueError if one differs from it."""
    manifest = json.loads((bundle / "manifest.json").read_bytes())
    for entry in manifest["files"]:
        with (bundle / entry["path"]).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != entry["sha256"]:
            raise ValueError(f"{entry['path']} is not the file that the manifest lists")
    return len(manifest["files"])


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]), sys.argv[5:])
