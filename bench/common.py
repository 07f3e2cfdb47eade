"""What the benches share: children that are ended by their id, a free port, readiness, exit codes."""

import contextlib
import signal
import socket
import subprocess
import sys
import time

READY_LIMIT_S = 10
EXIT_VALID, EXIT_COMPARISON, EXIT_INVALID, EXIT_ENVIRONMENT = 0, 1, 3, 4


class Failed(Exception):
    """A run that is no measurement; the text says what was seen."""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def stop(child):
    """Ends a child that we started, by its id; the second way only when the first had no effect."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        if child.poll() is None:
            child.send_signal(how)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(timeout=5)


def wait_ready(child, port, last_words):
    """Waits until `port` takes connections; `last_words()` is what the child said when it does not."""
    end = time.monotonic() + READY_LIMIT_S
    while time.monotonic() < end and child.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.02)
    raise Failed(f"{child.args[0]} did not get ready within {READY_LIMIT_S} s; it said: {last_words()}")


def progress(text):
    """A line for a person who waits; nothing when the output goes to a file."""
    if sys.stderr.isatty():
        print(f"\r{text} ", end="", file=sys.stderr, flush=True)
