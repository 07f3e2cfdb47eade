"""What a log is piped to: reads and throws away, resting for so many milliseconds after every page: read_log.py MS."""

import os
import sys
import time

REST_S = float(sys.argv[1]) / 1000
while os.read(0, 4096):
    time.sleep(REST_S)
