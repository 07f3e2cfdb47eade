"""Who says whose a token is, asked by POST: identities.py PORT DELAY_MS. Each is a fitter's for an hour, said later."""

import asyncio
import json
import re
import sys
import time

PORT, DELAY_S = int(sys.argv[1]), float(sys.argv[2]) / 1000


async def serve(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            if length := re.search(r"(?i)^content-length: *(\d+)", head, re.M):
                await reader.readexactly(int(length[1]))
            await asyncio.sleep(DELAY_S)
            said = json.dumps({"sub": "fitter7", "scope": "valves", "exp": int(time.time()) + 3600}).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(said), said))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", PORT)
    await server.serve_forever()


asyncio.run(main())
