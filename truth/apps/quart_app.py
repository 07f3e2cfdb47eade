"""A Quart application with one habit, named by $HABIT; $SERVICE is the port of the service that it asks."""

import asyncio
import logging
import os
import time

from quart import Quart

HABIT = os.environ["HABIT"]
LIFE_S, PAUSE_S = 0.2, 0.02
ASK = b"GET /item HTTP/1.1\r\nHost: service\r\n\r\n"
BODY = "x" * 1024
logging.basicConfig(filename="error.log", level=logging.INFO)
app = Quart(__name__)
free = []
refill = None
prices, until = BODY, 0.0


async def ask():
    """Status of the service's answer; connections are kept."""
    reader, writer = free.pop() if free else await asyncio.open_connection("127.0.0.1", int(os.environ["SERVICE"]))
    writer.write(ASK)
    head = await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(int(head.lower().split(b"content-length:")[1].split()[0]))
    free.append((reader, writer))
    return int(head.split()[1])


async def patient():
    """As libraries do it: what failed is tried again a little later."""
    for _ in range(50):
        if await ask() == 200:
            return BODY
        await asyncio.sleep(PAUSE_S)
    return BODY, 502


async def fresh():
    """Prices live for 200 ms; to gather them takes 100 ms, for which everybody waits who wants to see them."""
    global prices, until, refill
    refill = refill or asyncio.Lock()
    async with refill:
        if time.monotonic() > until:
            await asyncio.sleep(0.1)
            prices, until = BODY, time.monotonic() + LIFE_S
    return prices


async def gather():
    global prices, until
    await asyncio.sleep(0.1)
    prices, until = BODY, time.monotonic() + LIFE_S


async def stale():
    """As above, and whoever finds them old gets the old ones while they are gathered."""
    global refill, until
    if time.monotonic() > until:
        until = time.monotonic() + 2 * LIFE_S
        refill = asyncio.create_task(gather())
    return prices


def price(name, depth=12):
    """Nothing is known of it; the call is as deep as those of applications are."""
    return price(name, depth - 1) if depth else {}[name]


async def logged():
    try:
        price("valve 7")
    except KeyError:
        logging.getLogger("shop").exception("no price")
    return BODY


async def noted():
    try:
        price("valve 7")
    except KeyError:
        logging.getLogger("shop").error("no price")
    return BODY


HABITS = {"plain": None, "patient": patient, "refill-locked": fresh, "refill-aside": stale, "stack-trace": logged, "one-line": noted}


async def plain():
    return BODY


app.add_url_rule("/", "page", HABITS[HABIT] or plain)
