"""A server of maps that MapProxy asks: map_source.py PORT WAIT_MS. Each map is the same picture, in the size that was asked for.

It closes the connection after each answer, as MapProxy opens a new one for each question.
"""

import asyncio
import functools
import io
import re
import sys

from PIL import Image, ImageDraw

PORT, WAIT_S = int(sys.argv[1]), float(sys.argv[2]) / 1000


@functools.lru_cache
def picture(width, height):
    image = Image.new("RGB", (width, height), "#f4f1e8")
    draw = ImageDraw.Draw(image)
    for n in range(40):
        left, top = n * 97 % width, n * 61 % height
        draw.rectangle((left, top, left + 30, top + 18), fill=(90 + n * 4, 120, 200 - n * 4), outline="black")
        draw.line((0, top, width, left % height), fill=(160, 60 + n * 3, 60), width=2)
    held = io.BytesIO()
    image.save(held, "PNG")
    return held.getvalue()


async def answer(reader, writer):
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    await asyncio.sleep(WAIT_S)
    sizes = [re.search(rf"[?&]{name}=(\d+)", head) for name in ("width", "height")]
    body = picture(*[int(size[1]) for size in sizes])
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nConnection: close\r\n"
                 + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()
    writer.close()


async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", PORT, backlog=256)
    await server.serve_forever()


asyncio.run(main())
