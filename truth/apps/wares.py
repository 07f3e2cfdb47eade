"""A WSGI application that tells a program of every request, by a pipe: $REST_MS is how long that rests after a page."""

import os
import subprocess
import sys

from wsgi import app as plain

LINE = b"203.0.113.7 - visitor [request] " + b"a=1&" * 80 + b"\n"
log = subprocess.Popen(
    [sys.executable, os.path.join(os.path.dirname(__file__), "read_log.py"), os.environ["REST_MS"]], stdin=subprocess.PIPE
).stdin


def logged(environ, start_response):
    os.write(log.fileno(), LINE)
    return plain(environ, start_response)
