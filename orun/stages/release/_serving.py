"""Program of `release/serve-check` that runs with ONNX Runtime and without orun.

    python -I _serving.py BUNDLE MODEL QUESTIONS.npz REPLIES.npz PROVIDER...

It checks the bundle's files against its manifest, opens the model in its folder MODEL, and runs each case: from
the arrays `<case>/<input>` to the arrays `<case>/<output>`. It prints a line of JSON about itself. A problem is an
uncaught exception, whose last line the stage reports.
"""

import hashlib
import importlib
import json
import sys
from pathlib import Path
from typing import Any

EXTENSIONS = "onnxruntime-extensions"


def main(bundle: Path, model: str, questions: Path, replies: Path, providers: list[str]) -> None:
    """Run the cases of a file."""
    import numpy as np
    import onnxruntime

    checked = check_files(bundle)
    options = onnxruntime.SessionOptions()
    if EXTENSIONS in read_manifest(bundle).get("requires", ()):
        options.register_custom_ops_library(importlib.import_module("onnxruntime_extensions").get_library_path())
    if {"CUDAExecutionProvider", "TensorrtExecutionProvider"} & set(providers) and hasattr(onnxruntime, "preload_dlls"):
        onnxruntime.preload_dlls()  # CUDA's libraries that pip has installed; since 1.21
    session = onnxruntime.InferenceSession(str(bundle / model / "model.onnx"), options, providers=providers)
    if session.get_providers()[0] != providers[0]:
        raise RuntimeError(f"{providers[0]} is not available: the session runs on {session.get_providers()[0]}")
    outputs = [output.name for output in session.get_outputs()]
    inputs = [item.name for item in session.get_inputs()]
    results = {}
    with np.load(questions) as cases:
        for number in sorted({int(name.split("/", 1)[0]) for name in cases}):
            feed = {name: cases[f"{number}/{name}"] for name in inputs}
            values = session.run(outputs, feed)
            for name, value in zip(outputs, values, strict=True):
                # Objects are texts; as objects they would need pickle.
                results[f"{number}/{name}"] = value.astype(np.str_) if value.dtype == object else value
    np.savez(replies, **results)
    report = {"onnxruntime": onnxruntime.__version__, "providers": session.get_providers(), "files": checked}
    sys.stdout.write(f"{json.dumps(report)}\n")


def check_files(bundle: Path) -> int:
    """Return the number of files in the manifest; raise ValueError if one differs from it."""
    files = read_manifest(bundle)["files"]
    for entry in files:
        with (bundle / entry["path"]).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != entry["sha256"]:
            raise ValueError(f"{entry['path']} differs from its entry in the manifest")
    return len(files)


def read_manifest(bundle: Path) -> dict[str, Any]:
    """Return the content of the manifest."""
    content: dict[str, Any] = json.loads((bundle / "manifest.json").read_bytes())
    return content


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]), sys.argv[5:])
