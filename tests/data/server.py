"""A server of files on this machine that can be told to misbehave."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server:
    """Files by name, and how many of the next answers break off, fail, or ignore a range."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.cut: list[int] = []
        self.fail = 0
        self.ranges = True
        self.asked: list[str | None] = []
        self.address = ""


@contextmanager
def running() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            state.asked.append(wanted)
            content = state.files.get(self.path.lstrip("/"))
            if state.fail:
                state.fail -= 1
                self.send_error(503)
                return
            if content is None:
                self.send_error(404)
                return
            start = int(wanted.split("=")[1].rstrip("-")) if wanted and state.ranges else 0
            if start >= len(content) and start:
                self.send_error(416)
                return
            rest = content[start:]
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(rest)))
            self.end_headers()
            self.wfile.write(rest[: state.cut.pop(0)] if state.cut else rest)

        def log_message(self, *arguments: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.address = f"http://127.0.0.1:{httpd.server_address[1]}"
    thread = threading.Thread(target=httpd.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()
