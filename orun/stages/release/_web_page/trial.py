"""Trial of the page of a release in Chromium."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from orun.errors import OrunError
from orun.measure.web.chromium import Chromium
from orun.measure.web.static_server import serve_folders
from orun.measure.web.tensors import decode_tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

READY = "import('/page.mjs').then(page => page.ready)"
RUN = "document.querySelector('form').requestSubmit(), import('/page.mjs').then(page => page.latest)"
STATUS = "document.querySelector('#status').textContent"


def press_run(folder: Path, program: str) -> dict[str, NDArray[Any]]:
    """Open the page in a folder, from a server that sends no headers, press its button, and return the outputs by name.

    Raises:
        OrunError: if the page fails, with what it shows, or what it wrote to the console.
    """
    with (
        serve_folders({"": folder}, headers={}) as address,
        TemporaryDirectory(ignore_cleanup_errors=True) as profile,
        Chromium(program, Path(profile)) as tab,
    ):
        tab.load(f"{address}/index.html")
        tab.evaluate(READY)
        outputs = tab.evaluate(RUN)
        if outputs is None:
            raise OrunError("the page shows an error", why="\n".join([tab.evaluate(STATUS), *tab.complaints]))
        return {name: decode_tensor(tensor) for name, tensor in outputs.items()}
