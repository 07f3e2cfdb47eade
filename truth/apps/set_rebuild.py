"""A job beside the application: set_rebuild.py PORT STORE_PORT HOW: a set of 300,000 customers made anew, about once a second.

The old one goes by HOW, `del` or `unlink`. The port is open when the job has begun.
"""

import socket
import sys
import time

import redis

CUSTOMERS, PART, PAUSE_S = 300_000, 1000, 0.002

store = redis.Redis(host="127.0.0.1", port=int(sys.argv[2]))
open_port = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    for first in range(0, CUSTOMERS, PART):
        store.sadd("customers", *(f"customer {n}" for n in range(first, first + PART)))
        time.sleep(PAUSE_S)
    store.execute_command(sys.argv[3], "customers")
