"""A job beside a server, each second: defragment.py PORT SERVER_PORT PATH [FILE], what it asks for and what it sends.

The port is open when the job has begun.
"""

import contextlib
import http.client
import socket
import sys
import time
from pathlib import Path

EVERY_S = 1.0

open_port = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    time.sleep(EVERY_S)
    connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[2]), timeout=30)
    with contextlib.closing(connection), contextlib.suppress(OSError):
        body = Path(sys.argv[4]).read_bytes() if len(sys.argv) > 4 else b"{}"
        connection.request("POST", sys.argv[3], body, {"Content-Type": "application/json"})
        connection.getresponse().read()
