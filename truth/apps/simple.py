"""The standard library's server for one connection at a time, or with a thread for each: simple.py PORT single|threads."""

import http.server
import sys
import time

BODY = b"x" * 1024


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers after 5 ms, in one piece."""

    protocol_version = "HTTP/1.0"
    wbufsize = -1

    def do_GET(self):
        time.sleep(0.005)
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *_):
        """No log."""


class Single(http.server.HTTPServer):
    """One connection at a time."""

    request_queue_size = 1024


class Threads(http.server.ThreadingHTTPServer):
    """A thread for each."""

    request_queue_size = 1024


if __name__ == "__main__":
    kind = Single if sys.argv[2] == "single" else Threads
    kind(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
