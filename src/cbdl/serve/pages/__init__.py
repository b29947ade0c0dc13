"""The files of the page at / and of /docs, as they are sent."""

from __future__ import annotations

from importlib.resources import files as resources

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def load() -> dict[str, tuple[bytes, str]]:
    """Every file by its name: what it holds, and its type."""
    folder = resources(__name__)
    found = {}
    for entry in folder.iterdir():
        kind = KINDS.get("." + entry.name.rpartition(".")[2])
        if kind is not None:
            found[entry.name] = (entry.read_bytes(), kind)
    return found
