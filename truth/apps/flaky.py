"""A service of which every Nth answer is 503: flaky.py PORT N; 0 is none."""

import asyncio
import sys

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nitem"
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nbusy"
every, asked = int(sys.argv[2]), 0


async def serve(reader, writer):
    global asked
    try:
        while await reader.readuntil(b"\r\n\r\n"):
            asked += 1
            writer.write(BUSY if every and asked % every == 0 else OK)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()


asyncio.run(main())
