"""What stands behind pen: pen_app.py PORT AT_ONCE WORK_MS.

It draws AT_ONCE drawings at the same time, each of them for WORK_MS, and closes a connection after so many of them.
"""

import asyncio
import sys

PORT, AT_ONCE, WORK_S = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) / 1000
REQUESTS_EACH = 200
DRAWING = b"a line from here to there, " * 150


async def serve(slots, reader, writer):
    try:
        for left in reversed(range(REQUESTS_EACH)):
            await reader.readuntil(b"\r\n\r\n")
            async with slots:
                await asyncio.sleep(WORK_S)
            close = "" if left else "Connection: close\r\n"
            writer.write(f"HTTP/1.1 200 OK\r\n{close}Content-Length: {len(DRAWING)}\r\n\r\n".encode() + DRAWING)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main():
    slots = asyncio.Semaphore(AT_ONCE)
    server = await asyncio.start_server(lambda reader, writer: serve(slots, reader, writer), "127.0.0.1", PORT)
    await server.serve_forever()


asyncio.run(main())
