"""Static web server on this machine, for pages that run a model."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

POLL_SECONDS = 0.05  # between two looks at whether the server must end

TYPES = {".mjs": "text/javascript", ".js": "text/javascript", ".wasm": "application/wasm", ".html": "text/html"}
# Threads of WebAssembly share memory, which a browser allows only to pages that it isolates from others:
# https://web.dev/articles/coop-coep
ISOLATION = {"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp"}


@contextmanager
def serve_folders(folders: Mapping[str, Path], headers: Mapping[str, str] = ISOLATION) -> Iterator[str]:
    """Serve folders until the context ends; yield the address, without a slash at its end.

    Args:
        folders: by the first part of the path; that of an empty name has all other paths.
        headers: sent with each answer.
    """

    class Handler(SimpleHTTPRequestHandler):
        extensions_map = TYPES

        def translate_path(self, path: str) -> str:
            first, _, rest = unquote(urlsplit(path).path).lstrip("/").partition("/")
            folder, name = (folders[first], rest) if first in folders else (folders[""], f"{first}/{rest}".rstrip("/"))
            name = name.lstrip("/")  # an absolute path would leave the folder
            return str(folder / "?" if ".." in Path(name).parts else folder / name)

        def end_headers(self) -> None:
            for name, value in headers.items():
                self.send_header(name, value)
            super().end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(POLL_SECONDS,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
