"""Asks a server to read its configuration again, every so many seconds: reload.py PID_FILE SECONDS."""

import os
import signal
import sys
import time

while True:
    time.sleep(float(sys.argv[2]))
    try:
        with open(sys.argv[1]) as file:
            os.kill(int(file.read()), signal.SIGHUP)
    except (OSError, ValueError):
        # It has not written its number yet, or is ending.
        continue
