"""Readers of datasets from installed packages."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from orun.environment.install_commands import choose_installer
from tests.site_packages import Site

from .support import array, labels, load, refusal

FILE = "lib/python3/site-packages/acme_deck.py"
REFUSED = "a.deck cannot be read by the package acme_deck"
NO_QUEEN = "ModuleNotFoundError: No module named 'queen'"
UPGRADE = f"  hint: {choose_installer()} --upgrade acme_deck"
Install = Callable[[str], None]
READER = """
import numpy as np


def read(path):
    first, second = path.read_text().split()
    return {"x": np.array([float(first), float(second)]), "labels": np.array([0, 1])}
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a package that reads `.deck` files."""
    site = Site.make(tmp_path)
    monkeypatch.syspath_prepend(site.folder)
    monkeypatch.chdir(tmp_path)

    def put(text: str) -> None:
        metadata = site.install("acme_deck", "1.0", text)
        (metadata / "entry_points.txt").write_text("[orun.datasets]\ndeck = acme_deck:read\nnpy = acme_deck:read\n")
        monkeypatch.delitem(sys.modules, "acme_deck", raising=False)
        (tmp_path / "a.deck").write_text("1 2")

    return put


def test_a_file_that_a_package_reads(tmp_path: Path, install: Install) -> None:
    install(READER)
    dataset = load(tmp_path, "a.deck", inputs={"input": "x"}, classes=["0", "1"])
    assert (array(dataset, "input").tolist(), labels(dataset)) == ([1.0, 2.0], [0, 1])
    assert refusal(tmp_path, "a.deck", inputs={"input": "y"}) == "a.deck has no 'y'\n  it has x, labels"


def test_a_package_may_give_lists(tmp_path: Path, install: Install) -> None:
    """Labels and fields in lists ended in a StopIteration."""
    install(READER.replace("np.array([0, 1])}", '[0, 1], "group": ["a", "b"]}'))
    dataset = load(tmp_path, "a.deck", inputs={"input": "x"}, fields=["group"])
    assert (labels(dataset), dataset.fields["group"].tolist()) == ([0, 1], ["a", "b"])


def test_a_suffix_that_neither_orun_nor_a_package_reads(tmp_path: Path, install: Install) -> None:
    install(READER)
    (tmp_path / "a.xls").touch()
    assert refusal(tmp_path, "a.xls").splitlines()[1] == (
        "  its name ends in .xls, not in .npz, .npy, .safetensors, .csv, .tsv, .jsonl, .ndjson, .parquet, .txt, .deck;"
        " images are in a folder"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "import queen\n",
            f"the dataset reader 'deck' of the package acme_deck cannot be used: {NO_QUEEN} at {FILE}:1\n{UPGRADE}",
        ),
        (
            "def read(path):\n    return open(path + 'b')\n",
            f"{REFUSED}\n  TypeError: unsupported operand type(s) for +: 'PosixPath' and 'str' at {FILE}:2",
        ),
        (
            "def read(path):\n    return [1, 2]\n",
            f"{REFUSED}\n  acme_deck:read returned list, not columns by name",
        ),
        (
            "from orun import UsageError\n\n\ndef read(path):\n    raise UsageError('a.deck lacks a queen')\n",
            "a.deck lacks a queen",
        ),
    ],
)
def test_a_package_that_cannot_read_it(tmp_path: Path, install: Install, text: str, message: str) -> None:
    install(text)
    assert refusal(tmp_path, "a.deck") == message


def test_a_suffix_that_orun_reads_is_not_a_package_s(tmp_path: Path, install: Install) -> None:
    install("raise RuntimeError\n")
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY, no")
    assert refusal(tmp_path, "a.npy").startswith("a.npy is not an array")
