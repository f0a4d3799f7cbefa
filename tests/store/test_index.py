"""The index: deleting, damaging or sharing it never changes a result."""

from __future__ import annotations

import random
import resource
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from orun.fs.signatures import Signature
from orun.store.index import Index
from tests.thin import mostly_slow

FILE: Signature = (1, 2, 3, 4, 5)
OTHER: Signature = (1, (1 << 64) - 1, 3, 4, 5)
DIGEST = "d" * 64


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "index"


def opened(folder: Path) -> tuple[Index, list[str]]:
    notices: list[str] = []
    return Index(folder, notices), notices


def write(folder: Path, *signatures: Signature) -> None:
    index, notices = opened(folder)
    for signature in signatures:
        index.put(signature, DIGEST)
    index.close()
    assert notices == []


def test_a_digest_belongs_to_the_whole_signature(folder: Path) -> None:
    write(folder, FILE, OTHER)
    index, notices = opened(folder)
    assert index.get(FILE) == index.get(OTHER) == DIGEST
    for position in range(5):
        changed = list(FILE)
        changed[position] += 7
        assert index.get((changed[0], changed[1], changed[2], changed[3], changed[4])) is None
    assert notices == []
    index.close()


def test_what_another_process_saw_counts(folder: Path) -> None:
    index, _ = opened(folder)
    index.put(FILE, DIGEST)
    touched: Signature = (1, 2, 3, 9, 9)
    assert index.get(touched) is None
    write(folder, touched)
    assert index.get(touched) == DIGEST
    assert index.get(FILE) is None
    index.close()


def test_nothing_is_known_before_it_is_flushed(folder: Path) -> None:
    index, _ = opened(folder)
    index.put(FILE, DIGEST)
    other, _ = opened(folder)
    assert (index.get(FILE), other.get(FILE)) == (DIGEST, None)
    index.flush()
    assert other.get(FILE) == DIGEST
    index.close()
    other.close()


def test_forgotten_digests_are_gone_for_everybody(folder: Path) -> None:
    index, _ = opened(folder)
    index.put(FILE, DIGEST)
    index.put(OTHER, "e" * 64)
    index.flush()
    index.forget({DIGEST})
    assert (index.get(FILE), index.get(OTHER)) == (None, "e" * 64)
    index.close()


def test_a_deleted_index_is_made_again(folder: Path) -> None:
    write(folder, FILE)
    shutil.rmtree(folder)
    index, notices = opened(folder)
    assert index.get(FILE) is None
    index.close()
    write(folder, FILE)
    index, _ = opened(folder)
    assert index.get(FILE) == DIGEST
    assert notices == []
    index.close()


def test_a_flipped_bit_in_a_row_makes_it_unknown(folder: Path) -> None:
    write(folder, FILE)
    with sqlite3.connect(folder / "signatures.sqlite") as database:
        database.execute("UPDATE seen SET record = replace(record, 'dddd', 'dddf')")
    database.close()
    index, notices = opened(folder)
    assert index.get(FILE) is None
    assert notices == []
    index.close()


def test_a_file_that_is_no_database_is_deleted(folder: Path) -> None:
    folder.mkdir()
    (folder / "signatures.sqlite").write_bytes(b"garbage " * 1000)
    index, notices = opened(folder)
    assert index.get(FILE) is None
    assert notices == [f"the index in {folder} was damaged (file is not a database) and was begun anew"]
    index.put(FILE, DIGEST)
    index.close()
    assert [path.name for path in folder.iterdir()] == ["signatures.sqlite"]
    index, notices = opened(folder)
    assert (index.get(FILE), notices) == (DIGEST, [])
    index.close()


def test_a_database_of_another_shape_is_deleted(folder: Path) -> None:
    folder.mkdir()
    with sqlite3.connect(folder / "signatures.sqlite") as database:
        database.execute("CREATE TABLE seen (other TEXT)")
    database.close()
    index, notices = opened(folder)
    assert index.get(FILE) is None
    assert notices == [f"the index in {folder} was damaged (no such column: record) and was begun anew"]
    index.put(FILE, DIGEST)
    assert index.get(FILE) == DIGEST
    index.close()


@pytest.mark.parametrize("seed", mostly_slow(range(60), *range(9)))
def test_no_damage_to_the_database_gives_a_wrong_digest(folder: Path, seed: int) -> None:
    """Flipped bits, lost ends and lost pages anywhere: a digest is right or unknown, and the index works afterwards."""
    chance = random.Random(seed)
    signatures: list[Signature] = [(1, number, 3, 4, 5) for number in range(300)]
    write(folder, *signatures)
    path = folder / "signatures.sqlite"
    data = bytearray(path.read_bytes())
    for _ in range(chance.choice([1, 10, 1000])):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    if seed % 3 == 0:
        data = data[: chance.randrange(len(data))]
    path.write_bytes(data)
    index, notices = opened(folder)
    assert {index.get(signature) for signature in signatures} <= {DIGEST, None}
    index.put(FILE, DIGEST)
    index.flush()
    index.close()
    assert len(notices) <= 1
    again, notices = opened(folder)
    again.put(OTHER, DIGEST)
    again.close()
    last, notices = opened(folder)
    assert last.get(OTHER) == DIGEST
    assert notices == []
    last.close()


def test_a_process_that_has_the_damaged_database_open_does_no_harm_to_the_new_one(folder: Path) -> None:
    """SQLite removes a log by its name: at worst the index is begun anew once more."""
    write(folder, FILE)
    old, _ = opened(folder)
    assert old.get(OTHER) is None
    (folder / "signatures.sqlite").write_bytes(b"garbage " * 1000)
    new, notices = opened(folder)
    assert new.get(FILE) is None
    new.put(FILE, DIGEST)
    new.flush()
    assert notices == [f"the index in {folder} was damaged (file is not a database) and was begun anew"]
    old.put(OTHER, DIGEST)
    old.close()
    assert new.get(OTHER) in {DIGEST, None}
    new.close()
    write(folder, OTHER)
    last, notices = opened(folder)
    assert last.get(FILE) in {DIGEST, None}
    assert (last.get(OTHER), notices) == (DIGEST, [])
    last.close()


def test_an_index_that_cannot_be_opened_is_done_without(folder: Path) -> None:
    (folder / "signatures.sqlite").mkdir(parents=True)
    index, notices = opened(folder)
    assert index.get(FILE) is None
    index.put(FILE, DIGEST)
    index.close()
    assert index.get(FILE) == DIGEST
    assert notices == [
        f"the index in {folder} cannot be used (unable to open database file): files are read more than need be"
    ]


def test_an_index_that_cannot_be_written_is_not_damaged(folder: Path) -> None:
    """Begun anew, as where a quota was used up, it made the next run read all that is stored."""
    write(folder, FILE)
    index, notices = opened(folder)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        index.put(OTHER, DIGEST)
        index.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert notices == [f"the index in {folder} cannot be used (disk I/O error): files are read more than need be"]
    again, warnings = opened(folder)
    assert (again.get(FILE), again.get(OTHER), warnings) == (DIGEST, None, [])
    again.close()


WRITER = """
import sys
from pathlib import Path
from orun.store.index import Index
from tests.thin import mostly_slow

folder, number = Path(sys.argv[1]), int(sys.argv[2])
notices = []
for round in range(10):
    index = Index(folder, notices)
    for other in range(4):
        known = index.get((other, round, 3, 4, 5))
        assert known in {None, "d" * 64}, known
    index.put((number, round, 3, 4, 5), "d" * 64)
    index.close()
assert notices == [], notices
"""


@pytest.mark.slow
def test_many_processes_share_an_index(folder: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(folder)]
    writers = [subprocess.Popen([*command, str(number)], stderr=subprocess.PIPE) for number in range(4)]
    assert [(writer.communicate()[1], writer.returncode) for writer in writers] == [(b"", 0)] * 4
    index, notices = opened(folder)
    expected = {(number, round_number, 3, 4, 5) for number in range(4) for round_number in range(10)}
    assert {signature for signature in expected if index.get(signature) == DIGEST} == expected
    assert notices == []
    index.close()


def test_sqlite_is_imported_only_when_there_is_something_to_ask() -> None:
    code = "import sys, orun.store; print('sqlite3' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"
