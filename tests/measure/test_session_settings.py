"""Session settings beside a model: written, read, and taken by sessions."""

from __future__ import annotations

from pathlib import Path

import pytest

from orun.core.targets import Provider, Target
from orun.errors import UsageError
from orun.measure.session import open_session
from orun.measure.session_settings import FILE_NAME, SessionSettings, add_settings, read_settings, write_settings
from tests.measure.support import save_model

CPU = (Provider("CPUExecutionProvider"),)
ONE = SessionSettings(CPU, CPU, {"intra_op_num_threads": 1, "session.intra_op.allow_spinning": False}, "a processor")


def test_settings_are_read_back(tmp_path: Path) -> None:
    assert read_settings(tmp_path) == ()
    write_settings(tmp_path, (ONE,))
    assert read_settings(tmp_path) == (ONE,)


def test_a_session_takes_them(tmp_path: Path) -> None:
    model = save_model(tmp_path / "model.onnx")
    write_settings(tmp_path, (ONE,))
    options = open_session(model, Target("cpu")).get_session_options()
    assert options.intra_op_num_threads == 1
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"


def test_options_of_the_target_win(tmp_path: Path) -> None:
    write_settings(tmp_path, (ONE,))
    target = Target("cpu", session={"intra_op_num_threads": 2})
    assert add_settings(tmp_path / "model.onnx", target).session == {**ONE.session, "intra_op_num_threads": 2}


def test_a_target_of_other_providers_has_none(tmp_path: Path) -> None:
    write_settings(tmp_path, (ONE,))
    target = Target("gpu", (Provider("CUDAExecutionProvider"), *CPU))
    assert add_settings(tmp_path / "model.onnx", target) is target


def test_other_providers_may_be_faster(tmp_path: Path) -> None:
    faster = (Provider("XnnpackExecutionProvider", {"intra_op_num_threads": "2"}), *CPU)
    write_settings(tmp_path, (SessionSettings(CPU, faster),))
    applied = add_settings(tmp_path / "model.onnx", Target("cpu"))
    assert (applied.providers, applied.fallback) == (faster, "allow")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "session.json beside the model cannot be read"),
        ('{"format": 1, "settings": [{"searched": 3}]}', "session.json beside the model cannot be read"),
        ('{"format": 2}', "session.json beside the model has format 2, and this orun knows 1"),
    ],
)
def test_a_file_that_is_damaged(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / FILE_NAME).write_text(content)
    with pytest.raises(UsageError) as caught:
        read_settings(tmp_path)
    assert caught.value.problem == message
