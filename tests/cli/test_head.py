"""`orun head` before it starts anything; heads that run are in tests/cluster."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from orun.cli.head import command


@pytest.mark.parametrize("port", [10001, 16379, 19999])
def test_ports_of_rays_processes_are_refused(port: int) -> None:
    result = CliRunner().invoke(command, ["--port", str(port)], standalone_mode=False)
    assert str(result.exception) == (
        f"port {port} is one that Ray takes for itself\n"
        "  its processes listen at 10001 to 19999\n"
        "  hint: take another one: orun head --port 6379"
    )
