"""What Apache asks whose a path is (RewriteMap prg:): asks a directory of tenants for each line: tenant.py DIRECTORY_PORT."""

import http.client
import sys

directory = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
for line in sys.stdin:
    directory.request("GET", "/bytes/64")
    directory.getresponse().read()
    print("bytes", flush=True)
