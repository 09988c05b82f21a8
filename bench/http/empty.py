"""A server whose one route does nothing, on the stack that the registry and the REST proxy stand on.

`python -m bench.http.empty --listen http://127.0.0.1:PORT`: the same listener as theirs, with nothing behind it.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from penstock.core.loops import new_event_loop
from penstock.http.routes import Route
from penstock.http.server import HttpServer

PATH = "/empty"


async def _answer(request: Request) -> Response:
    await request.body()
    return Response(b"{}", media_type="application/json")


async def _serve(port: int) -> None:
    server = HttpServer("empty", [Route(PATH, _answer, ("GET", "POST"))])
    await server.start("127.0.0.1", port)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    await server.stop()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve(urlsplit(sys.argv[2]).port or 0))
