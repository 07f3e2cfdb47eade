"""Starts hypercorn with a socket that says it is TCP: quart_serve.py PORT [ARGUMENT]...

Python's event loop sets TCP_NODELAY on what such a socket accepts, and hypercorn's own sockets do not say so.
"""

import os
import socket
import sys

listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", int(sys.argv[1])))
listener.listen(100)
listener.set_inheritable(True)
os.execvp("hypercorn", ["hypercorn", "--bind", f"fd://{listener.fileno()}", *sys.argv[2:]])
