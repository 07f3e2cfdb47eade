"""What makes pages that a cache does not have, and puts them there: page_maker.py PORT CACHE_PORT DELAY_MS COUNT BYTES.

The cache speaks as memcached does. It has all of the pages when this begins to listen, as far as it can hold them.
"""

import asyncio
import sys

PORT, CACHE_PORT, DELAY_MS, COUNT, BYTES = map(int, sys.argv[1:])
DIGITS = len(f"{COUNT - 1:x}")


def made(path):
    line = f"{path}: valves of this hall, open and shut\n"
    return (line * (BYTES // len(line) + 1))[:BYTES].encode()


class Cache:
    """A connection to it, which is made anew when it was lost; what cannot be put there now is put there later."""

    def __init__(self):
        self.writer = None

    async def put(self, path, page):
        try:
            if self.writer is None:
                _, self.writer = await asyncio.open_connection("127.0.0.1", CACHE_PORT)
            self.writer.write(b"set %s 0 0 %d noreply\r\n%s\r\n" % (path.encode(), len(page), page))
            await self.writer.drain()
        except OSError:
            self.writer = None


async def serve(cache, reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            path = head.split(" ")[1]
            await asyncio.sleep(DELAY_MS / 1000)
            page = made(path)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s" % (len(page), page))
            await writer.drain()
            await cache.put(path, page)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main():
    cache = Cache()
    for n in range(COUNT):
        path = f"/pages/{n:0{DIGITS}x}"
        await cache.put(path, made(path))
    server = await asyncio.start_server(lambda *ends: serve(cache, *ends), "127.0.0.1", PORT)
    await server.serve_forever()


asyncio.run(main())
