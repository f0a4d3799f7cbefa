"""The static server: what it serves, and that nothing outside its folders is."""

from __future__ import annotations

from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from orun.measure.web.static_server import serve_folders


def test_only_files_of_its_folders_are_served(tmp_path: Path) -> None:
    page, runtime, secret = tmp_path / "page", tmp_path / "runtime", tmp_path / "secret"
    for path in (page / "index.html", page / "a" / "b.js", runtime / "ort.mjs", secret):
        path.parent.mkdir(exist_ok=True)
        path.write_text(path.name, "utf-8")
    with serve_folders({"": page, "ort": runtime}) as address:

        def fetch(path: str) -> tuple[int, str]:
            connection = HTTPConnection(urlsplit(address).netloc)
            connection.request("GET", path)
            response = connection.getresponse()
            text = response.read().decode() if response.status == 200 else ""
            connection.close()
            return response.status, text

        assert fetch("/") == (200, "index.html")
        assert fetch("/a/b.js") == (200, "b.js")
        assert fetch("/ort/ort.mjs") == fetch("/ort//ort.mjs") == (200, "ort.mjs")
        for place in (f"/ort/{secret}", f"/ort/%2F{secret}", f"/{secret}", "/ort/../secret", "/%2e%2e/secret"):
            assert fetch(place) == (404, ""), place
