"""The files of the page at / and of /docs, as they are sent.

What the pages share is in files `.part`: the head, with the page's title, and the door that asks for the token.
"""

from __future__ import annotations

import re
from importlib.resources import files as resources

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
SHARED = re.compile(r"<!-- (head|door)(?:: (.+?))? -->\n")


def load() -> dict[str, tuple[bytes, str]]:
    """Every file by its name: what it holds, and its type."""
    folder = resources(__name__)
    found = {}
    for entry in folder.iterdir():
        kind = KINDS.get("." + entry.name.rpartition(".")[2])
        if kind is not None:
            found[entry.name] = (entry.read_bytes(), kind)
    parts = {name: (folder / f"{name}.part").read_text("utf-8") for name in ("head", "door")}

    def shared(place: re.Match[str]) -> str:
        return parts[place[1]].replace("{title}", place[2] or "")

    for name in [n for n in found if n.endswith(".html")]:
        content, kind = found[name]
        found[name] = (SHARED.sub(shared, content.decode()).encode(), kind)
    return found
