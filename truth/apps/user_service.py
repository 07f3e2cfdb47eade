"""What says who may do what in RabbitMQ, asked by GET: user_service.py PORT DELAY_MS. All are let in, later."""

import asyncio
import sys

PORT, DELAY_S = int(sys.argv[1]), int(sys.argv[2]) / 1000


async def serve(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            await asyncio.sleep(DELAY_S)
            said = b"allow administrator" if "/user" in head.partition("\r\n")[0] else b"allow"
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(said), said))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", PORT)
    await server.serve_forever()


asyncio.run(main())
