"""Somebody who asks a web server for a large report now and then: yearly.py PORT SERVER_PORT PATH.

The port is open when he has begun.
"""

import contextlib
import http.client
import socket
import sys
import time

EVERY_S = 0.7

open_port = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    time.sleep(EVERY_S)
    connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[2]), timeout=30)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", sys.argv[3])
        connection.getresponse().read()
