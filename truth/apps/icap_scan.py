"""A scanner of viruses, asked by ICAP: icap_scan.py PORT DELAY_MS: it finds nothing, after so many milliseconds."""

import asyncio
import sys

PORT, DELAY_S = int(sys.argv[1]), float(sys.argv[2]) / 1000
TAG = b'ISTag: "plant-1"\r\n'
OPTIONS = (b"ICAP/1.0 200 OK\r\nMethods: RESPMOD\r\nService: plant\r\n" + TAG + b"Allow: 204\r\nPreview: 0\r\n"
           b"Transfer-Preview: *\r\nEncapsulated: null-body=0\r\n\r\n")
CLEAN = b"ICAP/1.0 204 No modifications\r\n" + TAG + b"Encapsulated: null-body=0\r\n\r\n"


async def serve(reader, writer):
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            if head.startswith(b"OPTIONS"):
                writer.write(OPTIONS)
                continue
            # The head of the response, of the request before it, and the last chunk of what is to be scanned.
            await reader.readuntil(b"0\r\n\r\n")
            await asyncio.sleep(DELAY_S)
            writer.write(CLEAN)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", PORT, limit=1 << 22)
    await server.serve_forever()


asyncio.run(main())
