"""The server: which address it may have, and how it starts and stops."""

from __future__ import annotations

import ipaddress
import signal
import socket
from collections.abc import Callable
from typing import Any

import uvicorn

from cbdl.tables.errors import UsageError

BACKLOG = 2048
PATIENCE = 5.0
"""Seconds beyond the time of a request that the service waits for those under way when it is told to stop."""


def run(app: Any, host: str, port: int, *, patience: float, started: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; then requests under way are finished, for at most `patience` seconds.

    port: 0 for any that is free; `started` is told the address when the port is open

    - `app`: the application
    - `host`: the address to listen at
    """
    listener = listen(host, port)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_graceful_shutdown=max(1, round(patience)),
    )
    server = _Server(config, lambda: started(address(listener)))
    # uvicorn raises the signal that stopped it once more, when it is done; that is no failure
    before = {own: signal.signal(own, lambda *_: None) for own in (signal.SIGINT, signal.SIGTERM)}
    try:
        server.run(sockets=[listener])
    finally:
        listener.close()
        for own, handler in before.items():
            signal.signal(own, handler)
    if not server.started:
        raise OSError("the service could not start; its log says why")


class _Server(uvicorn.Server):
    """Uvicorn's server that tells when it is ready."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()


def listen(host: str, port: int) -> socket.socket:
    """A socket on that address; a UsageError if there is none."""
    try:
        family, kind, proto, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError):
        raise UsageError(f"--host is {host!r}, which is no address of this machine") from None
    listener = socket.socket(family, kind, proto)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(where)
    except OSError as error:
        listener.close()
        raise UsageError(
            f"--host {host} --port {port} cannot be had ({error.strerror}); --port 0 picks a free port"
        ) from None
    listener.listen(BACKLOG)
    return listener


def address(listener: socket.socket) -> str:
    """The URL of a socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_private(host: str) -> bool:
    """Whether only this machine can reach an address.

    >>> is_private("127.0.0.1"), is_private("::1"), is_private("0.0.0.0")
    (True, True, False)
    """
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None, flags=socket.AI_PASSIVE)}
    except (OSError, UnicodeError):
        return False
    return all(ipaddress.ip_address(str(own).partition("%")[0]).is_loopback for own in found)
