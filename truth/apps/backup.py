"""A backup of Radicale's collections, each second, under its storage's lock: backup.py PORT LOCK exclusive|shared."""

import fcntl
import sys
import time

EVERY_S, TAKES_S = 1.0, 0.2


def main():
    how = fcntl.LOCK_EX if sys.argv[3] == "exclusive" else fcntl.LOCK_SH
    with open(sys.argv[2], "r+b") as lock:
        while True:
            time.sleep(EVERY_S - TAKES_S)
            fcntl.flock(lock, how)
            # The copy goes to a store that takes its time.
            time.sleep(TAKES_S)
            fcntl.flock(lock, fcntl.LOCK_UN)


main()
