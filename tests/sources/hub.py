"""A stand-in for the dataset hub: the few addresses that `datasets` asks for, served from a dict of files."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_COMMIT = "a" * 40


@contextmanager
def stand_in_hub(name: str, files: Mapping[str, bytes]) -> Iterator[str]:
    """Yield the address of a hub that holds one dataset repository."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.split("?")[0]
            file = re.fullmatch(rf"/datasets/{name}/resolve/[^/]+/(.+)", path)
            if file and file[1] in files:
                self.answer(200, files[file[1]])
            elif re.fullmatch(rf"/api/datasets/{name}(/revision/.+)?", path):
                siblings = [{"rfilename": each} for each in files]
                self.answer(200, json.dumps({"id": name, "sha": _COMMIT, "siblings": siblings, "tags": []}).encode())
            elif folder := re.fullmatch(rf"/api/datasets/{name}/tree/[^/]+/?(.*)", path):
                inside = [each for each in files if each.startswith(folder[1])]
                listing = [{"type": "file", "path": each, "size": len(files[each]), "oid": "x"} for each in inside]
                self.answer(200, json.dumps(listing).encode())
            else:
                self.answer(404, b"")

        do_HEAD = do_GET  # noqa: N815  http.server's own names

        def answer(self, code: int, data: bytes) -> None:
            self.send_response(code)
            self.send_header("ETag", f'"{len(data)}"')
            self.send_header("X-Repo-Commit", _COMMIT)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing: a test's output is not the place."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
