"""The cache of Graphite's collector, which has no points that are not on the disk: carbon_cache.py PORT MILLISECONDS.

It answers each question after a while, as one does that is busy with what it receives.
"""

import asyncio
import pickle
import struct
import sys

ANSWER = pickle.dumps({"datapoints": []}, protocol=2)


async def serve(reader, writer):
    try:
        while True:
            length, = struct.unpack("!L", await reader.readexactly(4))
            await reader.readexactly(length)
            if DELAY_S:
                await asyncio.sleep(DELAY_S)
            writer.write(struct.pack("!L", len(ANSWER)) + ANSWER)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main(port):
    server = await asyncio.start_server(serve, "127.0.0.1", port)
    await server.serve_forever()


DELAY_S = int(sys.argv[2]) / 1000
asyncio.run(main(int(sys.argv[1])))
