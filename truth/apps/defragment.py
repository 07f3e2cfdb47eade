"""A job beside etcd, each second: defragment.py PORT ETCD_PORT PATH, which is what the job asks of the gateway.

The port is open when the job has begun.
"""

import contextlib
import http.client
import socket
import sys
import time

EVERY_S = 1.0

open_port = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    time.sleep(EVERY_S)
    connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[2]), timeout=30)
    with contextlib.closing(connection), contextlib.suppress(OSError):
        connection.request("POST", sys.argv[3], "{}")
        connection.getresponse().read()
