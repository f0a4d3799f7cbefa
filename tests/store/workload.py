"""A small run on a store, as a runner does it: `python -m tests.store.workload STORE TIMES`, reports as JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orun.fs.durable import replace_file
from orun.fs.os_errors import convert_os_errors
from orun.store import Action, Store
from orun.store.checksummed_json import encode_checksummed
from tests.store.results import action, content, fill

STAGES = {
    "export": {"model.onnx": b"a model", "model.onnx.data": b"weights " * 100, "more/labels.txt": b"labels"},
    "simplify": {"model.onnx": b"a simpler model", "more/labels.txt": b"labels"},
    "latency": {"figures.json": b"{}"},
}
KEYS = {name: f"{number}" * 64 for number, name in enumerate(STAGES)}


def run(root: Path, stored: Callable[[str], None] = lambda _: None, *, look: bool = True) -> dict[str, Any]:
    """Bring the three stages up to date as a runner does, and look at what people open.

    Args:
        root: the store's folder.
        stored: told when a result is stored for good.
        look: whether to look, and at what is left behind.
    """
    built, digests, before = [], {}, ""
    with Store.open(root) as store:
        store.sweep()
        folder = store.create_run("bert")
        for name, files in STAGES.items():
            with store.build_key_lock(KEYS[name]) as lock:
                lock.acquire()
                hits = [record for record in store.list_actions(KEYS[name]) if not store.check(record.tree)]
                if not hits:
                    built.append(name)
                    hits = [build(store, name, files, before)]
                stored(name)
            out, _ = store.check_out(hits[0].tree, "bert", name)
            assert not look or content(out) == files, name
            store.set_latest("bert", name, hits[0])
            digests[name] = before = hits[0].tree
        write_run(folder, "bert", digests)
        notices = store.drain_notices()
    folders = (root / "tmp", root / "locks") if look else ()
    left = [str(path.relative_to(root)) for folder in folders for path in folder.iterdir()]
    return {"built": built, "digests": digests, "notices": notices, "left": left}


def write_run(folder: Path, pipeline: str, trees: dict[str, str], **more: object) -> None:
    """Write what `gc` reads of the record of a run; `more` are further fields, or others in their place."""
    stages = [{"stage": name, "tree": tree, "outcome": "built"} for name, tree in trees.items()]
    record = {"pipeline": pipeline, "file": f"{pipeline}.yaml", "started_at": time.time(), "stages": stages, **more}
    with convert_os_errors("write the record of the run", folder):
        replace_file(str(folder / "record.json"), encode_checksummed(record), str(folder / "record.new"))


def build(store: Store, name: str, files: dict[str, bytes], before: str) -> Action:
    """What a stage does: its input is placed, its output stored, its record written last."""
    session_folder = store.make_session_folder(name)
    if before:
        store.materialize(before, session_folder / "inputs" / "model")
    with convert_os_errors(f"do the work of {name}", session_folder):
        fill(session_folder / "output", files)
    with store.flush_together():
        tree = store.add_tree(session_folder / "output")
        record = action(KEYS[name], tree=tree.digest, stage=name)
        store.put_action(record)
    store.discard(session_folder)
    return record


if __name__ == "__main__":
    for _ in range(int(sys.argv[2])):
        print(json.dumps(run(Path(sys.argv[1]))))  # noqa: T201
