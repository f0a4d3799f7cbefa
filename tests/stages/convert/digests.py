"""Converts networks in a process of its own and prints the digests of what came out."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.stages.conftest import MODULES
from tests.stages.support import digest, run_stage


def main(files: Path, work: Path) -> None:
    """Convert models from functions and from files, in a new folder."""
    folder = Path(tempfile.mkdtemp(dir=work))
    sequence = {"shape": ["batch", "length"]}
    inputs = {"ids": sequence, "mask": {**sequence, "fill": "mask"}}
    jobs = (
        (MODULES, {"model": "networks.py:attentive", "inputs": inputs}),
        (MODULES, {"model": "networks.py:recurrent"}),
        (files, {"model": "loop"}),
        (files, {"model": "model.tflite"}),
    )
    runs = {params["model"]: run_stage("convert/tensorflow", folder, params, root=root) for root, params in jobs}
    sys.stdout.write(json.dumps({str(name): digest(run.output) for name, run in runs.items()}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
