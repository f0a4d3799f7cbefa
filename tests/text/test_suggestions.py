"""Names that were probably meant."""

from __future__ import annotations

import pytest

from orun.text.suggestions import list_nearest

NAMES = ("int4.size", "int8[a=1].size", "int8[a=1].cosine[label=3]", "int8[a=2].size", "import")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("int8.size", ["int8[a=1].size", "int8[a=2].size"]),
        ("int8.cosine[label=3]", ["int8[a=1].cosine[label=3]"]),
        ("int8.cosine[label=4]", []),
        ("int8[a=1].cosin[label=3]", ["int8[a=1].cosine[label=3]"]),
        ("imprt", ["import"]),
        ("zzz", []),
    ],
)
def test_the_bare_name_of_a_matrix_means_each_of_its_stages(name: str, expected: list[str]) -> None:
    assert list_nearest(name, NAMES) == expected
