"""A remote that fails harms neither what is built nor who comes next; `benchmarks/faults.py` tries hundreds more.

Faults of the server, each told apart, are quick in tests/remote/test_faults.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults import weather
from tests.faults.rig import Rig
from tests.faults.weather import Weather
from tests.remote import s3


@pytest.fixture(scope="module")
def failing() -> Iterator[Weather]:
    """The remote, which runs of this process can reach as well."""
    with weather.serving() as serving, pytest.MonkeyPatch.context() as patch:
        for name, value in s3.variables(serving.url).items():
            patch.setenv(name, value)
        yield serving


CASES: list[tuple[str, weather.Trouble, int]] = [
    ("push", ("stored half", 3, "three times"), 1),
    ("push", ("hung up, though done", 2, "once"), 2),
    ("pull", ("cut off", 2, "from then on"), 1),
    ("pull", ("other bytes", 2, "once"), 2),
]


@pytest.mark.slow
@pytest.mark.parametrize(("direction", "fault", "count"), CASES)
def test_a_remote_that_fails(
    watched: Rig, failing: Weather, direction: str, fault: weather.Trouble, count: int
) -> None:
    description, judgement = weather.trial(watched, failing, direction, fault, count, ())
    assert failing.met, description
    assert judgement.outcome != "wrong", f"{description}: {judgement.why}"
