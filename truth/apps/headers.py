"""A backend that waits before it answers, with header lines of one's own: headers.py PORT MS [LINE]..."""

import asyncio
import email.utils
import sys

DELAY_S = float(sys.argv[2]) / 1000
BODY = b"x" * 1024
LINES = "".join(f"{line}\r\n" for line in sys.argv[3:])
HEAD = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(BODY)}\r\n"
ANSWER = f"{HEAD}Date: {email.utils.formatdate(usegmt=True)}\r\n{LINES}\r\n".encode() + BODY


class Connection(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.left = transport, b""

    def data_received(self, data):
        self.left += data
        while b"\r\n\r\n" in self.left:
            self.left = self.left.partition(b"\r\n\r\n")[2]
            asyncio.get_running_loop().call_later(DELAY_S, self.transport.write, ANSWER)


async def main():
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", int(sys.argv[1]), backlog=1024)
    await server.serve_forever()


asyncio.run(main())
