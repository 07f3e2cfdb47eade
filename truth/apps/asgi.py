"""ASGI applications with one habit each; $BACKEND is the port of the service that some of them ask."""

import asyncio
import http.client
import json
import os

BODY = b"x" * 1024
ASK = b"GET /bytes/16 HTTP/1.1\r\nHost: service\r\n\r\n"
RECORDS = [{"id": n, "name": f"valve {n}", "readings": list(range(10))} for n in range(30)]
REPORT = json.dumps(RECORDS, indent=2).encode()
BACKEND = int(os.environ.get("BACKEND", "0"))
kept = []
service = http.client.HTTPConnection("127.0.0.1", BACKEND)


def application(work):
    """An application whose body comes from a coroutine function."""

    async def serve(scope, receive, send):
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        body = await work()
        headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return serve


async def no_work():
    return BODY


async def ask_and_stand_still():
    """A client library that knows no event loop, called from one."""
    service.request("GET", "/bytes/16")
    service.getresponse().read()
    return BODY


async def ask(reader, writer):
    writer.write(ASK)
    await reader.read(4096)


async def ask_over_kept():
    pair = kept.pop() if kept else await asyncio.open_connection("127.0.0.1", BACKEND)
    await ask(*pair)
    kept.append(pair)
    return BODY


async def ask_over_new():
    """A client made anew in every request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", BACKEND)
    await ask(reader, writer)
    writer.close()
    await writer.wait_closed()
    return BODY


async def indented():
    """Indentation is done by the interpreter, object by object."""
    return json.dumps(RECORDS, indent=2).encode()


async def made_once():
    return REPORT


app = application(no_work)
blocking = application(ask_and_stand_still)
waiting = application(ask_over_kept)
reconnecting = application(ask_over_new)
reporting = application(indented)
reported = application(made_once)
