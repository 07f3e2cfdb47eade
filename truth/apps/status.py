"""A status page: `status.py PORT` serves it, `status.py` answers its standard input, as a server of inetd does."""

import json
import socketserver
import sys


def answer(questions, answers):
    """All requests of a connection."""
    while questions.readline():
        while questions.readline().strip():
            pass
        body = json.dumps({"valves": [{"id": n, "open": n % 3 > 0} for n in range(20)]}).encode()
        answers.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        answers.flush()


class Page(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    def handle(self):
        answer(self.rfile, self.wfile)


class Server(socketserver.ThreadingTCPServer):
    request_queue_size = 128


if len(sys.argv) > 1:
    Server(("127.0.0.1", int(sys.argv[1])), Page).serve_forever()
else:
    answer(sys.stdin.buffer, sys.stdout.buffer)
