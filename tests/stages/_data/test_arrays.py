"""Arrays in files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from tests.stages._data.support import array, labels, load, refusal

X = np.arange(6.0).reshape(3, 2)
ARRAYS = {"x": X, "labels": np.array([2, 0, 1]), "candidates.x": X + 1, "ids": np.array([7, 8, 9])}


def savez(path: Path) -> None:
    np.savez(path, **ARRAYS)  # type: ignore[arg-type]  # its stub takes no mapping beside `allow_pickle`


def test_arrays_go_by_their_names(tmp_path: Path) -> None:
    savez(tmp_path / "data.npz")
    save_file(ARRAYS, tmp_path / "data.safetensors")
    for name in ("data.npz", "data.safetensors"):
        dataset = load(tmp_path, name)
        assert set(dataset.inputs) == {"x", "ids"}
        assert array(dataset, "x").dtype == np.float32
        assert array(dataset, "ids").dtype == np.int64
        assert np.array_equal(array(dataset, "x"), X)
        assert labels(dataset) == [2, 0, 1]
        assert dataset.candidates is not None
        assert np.array_equal(dataset.candidates["x"], X + 1)


def test_one_array_is_named_after_its_file(tmp_path: Path) -> None:
    np.save(tmp_path / "pixels.npy", X)
    assert list(load(tmp_path, "pixels.npy").inputs) == ["pixels"]
    assert list(load(tmp_path, "pixels.npy", inputs={"image": "pixels"}).inputs) == ["image"]


def test_types_that_are_asked_for(tmp_path: Path) -> None:
    savez(tmp_path / "data.npz")
    dataset = load(tmp_path, "data.npz", inputs={"a": "x", "b": "ids"}, types={"a": "float64", "b": "int32"})
    assert [array(dataset, name).dtype for name in "ab"] == [np.float64, np.int32]


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", allow_pickle=True, x=np.array([{}], dtype=object))
    assert refusal(tmp_path, "data.npz") == (
        "data.npz: the array 'x' cannot be read\n  Object arrays cannot be loaded when allow_pickle=False"
    )
    np.save(tmp_path / "data.npy", np.array([{}], dtype=object), allow_pickle=True)
    assert refusal(tmp_path, "data.npy").startswith("data.npy is not an array\n")


def test_damaged_files_are_named(tmp_path: Path) -> None:
    for name, kind in (
        ("a.npz", "an archive of arrays"),
        ("a.npy", "an array"),
        ("a.safetensors", "a file of tensors"),
    ):
        (tmp_path / name).write_bytes(b"\x93NUMPY, no")
        assert refusal(tmp_path, name).startswith(f"{name} is not {kind}\n  ")


def test_what_is_no_archive_is_not_called_a_pickle(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_text("x, y")
    assert refusal(tmp_path, "a.npz") == (
        "a.npz is not an archive of arrays\n  it is not a zip file\n  hint: np.savez(path, x=values, labels=labels)"
    )


def test_an_array_that_is_not_there(tmp_path: Path) -> None:
    savez(tmp_path / "data.npz")
    assert refusal(tmp_path, "data.npz", inputs={"x": "idz"}) == (
        "data.npz has no 'idz'\n  it has x, labels, candidates.x, ids"
    )
    assert refusal(tmp_path, "data.npz", labels="classes").startswith("data.npz has no 'classes'\n")


def test_a_file_of_no_known_kind(tmp_path: Path) -> None:
    (tmp_path / "data.xls").write_bytes(b"")
    assert refusal(tmp_path, "data.xls") == (
        "data.xls is not a readable dataset\n"
        "  its name ends in .xls, not in .npz, .npy, .safetensors, .csv, .tsv, .jsonl, .ndjson, .parquet, .txt; "
        "images are in a folder\n"
        "  hint: read it in a function of your own: `file.py:function` that returns an orun.Dataset"
    )


def test_arrays_of_another_byte_order_are_turned(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([1.5, 2.5], ">f4"))
    values = array(load(tmp_path, "a.npz"), "x")
    assert (values.dtype.isnative, values.tolist()) == (True, [1.5, 2.5])


def test_types_that_numpy_does_not_have_itself(tmp_path: Path) -> None:
    header = b'{"x":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]}}'
    (tmp_path / "a.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(6))
    assert refusal(tmp_path, "a.safetensors").startswith(
        "a.safetensors: 'x' holds bfloat16, which models do not accept\n"
    )
    assert array(load(tmp_path, "a.safetensors", types={"x": "float32"}), "x").tolist() == [0, 0, 0]
