"""What stands behind Perlbal: perlbal_app.py PORT CHECK_MS.

It brings drawings, and says by OPTIONS whether it is well, for which it looks for CHECK_MS at what it needs itself.
"""

import asyncio
import sys

PORT, CHECK_S = int(sys.argv[1]), int(sys.argv[2]) / 1000
DRAWING = b"a line from here to there, " * 150


async def answer(method, connection):
    """An answer of HTTP/1.0, as Perlbal asks."""
    if method == "OPTIONS":
        await asyncio.sleep(CHECK_S)
    body = b"" if method == "OPTIONS" else DRAWING
    head = f"HTTP/1.0 200 OK\r\nConnection: {connection}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def serve(reader, writer):
    stays = True
    try:
        while stays:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            stays = "connection: keep-alive" in head
            writer.write(await answer(head.partition(" ")[0].upper(), "keep-alive" if stays else "close"))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", PORT)
    await server.serve_forever()


asyncio.run(main())
