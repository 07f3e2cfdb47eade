"""An aiohttp application with one habit, given by name: aiohttp_app.py PORT HABIT [SERVICE_PORT]."""

import asyncio
import sys

from aiohttp import ClientSession, TCPConnector, web

BODY = b"x" * 1024
SERVICE = f"http://127.0.0.1:{sys.argv[3] if len(sys.argv) > 3 else 0}/bytes/16"


def answer():
    return web.Response(body=BODY, content_type="text/plain")


async def ask(session):
    async with session.get(SERVICE) as response:
        await response.read()


def pool(size):
    """Asks over one session with so many connections."""

    async def serve(request):
        if "session" not in request.app:
            request.app["session"] = ClientSession(connector=TCPConnector(limit=size))
        await ask(request.app["session"])
        return answer()

    return serve


async def session_each_time(_):
    """A session made anew in every request."""
    async with ClientSession() as session:
        await ask(session)
    return answer()


def locked(serve):
    """The same, by one request at a time."""
    lock = asyncio.Lock()

    async def alone(request):
        async with lock:
            return await serve(request)

    return alone


async def plain(_):
    return answer()


HABITS = {"plain": plain, "pool-of-one": pool(1), "pool": pool(100), "session-each-time": session_each_time,
          "locked": locked(pool(100))}

application = web.Application()
application.router.add_get("/", HABITS[sys.argv[2]])
web.run_app(application, host="127.0.0.1", port=int(sys.argv[1]), print=None, access_log=None)
