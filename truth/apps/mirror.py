"""A mirror of packages some way off: mirror.py PORT DELAY_MS SIZE: it answers each path after so many milliseconds."""

import asyncio
import random
import sys

PORT, DELAY_S, SIZE = int(sys.argv[1]), float(sys.argv[2]) / 1000, int(sys.argv[3])
CHANGED = b"Sun, 01 Mar 2026 08:00:00 GMT"
HEAD = b"HTTP/1.1 %s\r\nLast-Modified: " + CHANGED + b"\r\nContent-Type: application/octet-stream\r\n"
FOUND = HEAD % b"200 OK" + b"Content-Length: %d\r\n\r\n" % SIZE + random.Random(7).randbytes(SIZE)
SAME = HEAD % b"304 Not Modified" + b"\r\n"


async def serve(reader, writer):
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            await asyncio.sleep(DELAY_S)
            writer.write(SAME if b"If-Modified-Since: " + CHANGED in head else FOUND)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", PORT)
    await server.serve_forever()


asyncio.run(main())
