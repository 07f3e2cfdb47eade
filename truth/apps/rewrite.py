"""What squid asks where a request is to go: leaves every URL as it is, after so many milliseconds: rewrite.py MS."""

import sys
import time

REST_S = float(sys.argv[1]) / 1000
for _ in sys.stdin:
    time.sleep(REST_S)
    print("ERR", flush=True)
