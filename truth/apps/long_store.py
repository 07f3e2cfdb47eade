"""A long-term store that Prometheus reads from remotely: long_store.py PORT MILLISECONDS SECOND_OF_THE_SAMPLE.

It answers every query, after a while, with one series that has one sample.
"""

import asyncio
import struct
import sys


def field(number, body):
    """A field of a protobuf message that holds bytes, of less than 128."""
    return bytes([number << 3 | 2, len(body)]) + body


def varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def snappy(body):
    """One literal, of at most 60 bytes, and so not compressed."""
    return varint(len(body)) + bytes([len(body) - 1 << 2]) + body


def answer(second):
    label = field(1, field(1, b"__name__") + field(2, b"stock"))
    sample = field(2, b"\x09" + struct.pack("<d", 17.0) + b"\x10" + varint(second * 1000))
    body = snappy(field(1, field(1, label + sample)))
    head = (f"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Encoding: snappy\r\n"
            f"Content-Length: {len(body)}\r\n\r\n")
    return head.encode() + body


class Store(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.got = transport, b""

    def data_received(self, data):
        self.got += data
        head, end, body = self.got.partition(b"\r\n\r\n")
        if not end:
            return
        lengths = [line[15:] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
        length = int(lengths[0]) if lengths else 0
        if len(body) >= length:
            self.got = body[length:]
            asyncio.get_running_loop().call_later(DELAY_S, self.transport.write, ANSWER)


async def main(port):
    server = await asyncio.get_running_loop().create_server(Store, "127.0.0.1", port)
    await server.serve_forever()


DELAY_S, ANSWER = int(sys.argv[2]) / 1000, answer(int(sys.argv[3]))
asyncio.run(main(int(sys.argv[1])))
