"""An application, asked in this process: directly, or through a real server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI

from cbdl.serve.server import address, listen

Conversation = Callable[[httpx.AsyncClient], Awaitable[Any]]


def talk(app: FastAPI, conversation: Conversation) -> Any:
    """What a conversation with a client of the application returns; the application starts before and stops after."""

    async def run() -> Any:
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(
                transport=transport, base_url="http://service", timeout=60
            ) as client:
                return await conversation(client)

    return asyncio.run(run())


def ask(app: FastAPI, path: str = "/v1/predict", **content: Any) -> httpx.Response:
    """The answer to one request: GET without content, else POST."""

    async def one(client: httpx.AsyncClient) -> httpx.Response:
        headers = content.pop("headers", None)
        if content:
            return await client.post(path, headers=headers, **content)
        return await client.get(path, headers=headers)

    return talk(app, one)


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """The address of the application behind a real server, in a thread of this process."""
    listener = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on"))
    thread = Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        yield address(listener)
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
