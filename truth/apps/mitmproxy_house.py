"""What a house adds to mitmproxy: each answer says who passed it, and a gate at $GATE is asked first, if there is one.

$ASKED says how: `in-line` in the hook itself, or `beside`, as mitmproxy advises for what waits.
"""

import os
import threading

import requests
from mitmproxy.script import concurrent

HERE = threading.local()
GATE = f"http://127.0.0.1:{os.environ.get('GATE', '')}/vhost"


def ask_gate(flow):
    """On a connection of the thread's own."""
    if not hasattr(HERE, "session"):
        HERE.session = requests.Session()
    flow.metadata["gate"] = HERE.session.get(GATE, timeout=5).text


class House:
    def response(self, flow):
        flow.response.headers["X-Passed-By"] = "house"


class AskedInLine:
    def requestheaders(self, flow):
        ask_gate(flow)


class AskedBeside:
    @concurrent
    def requestheaders(self, flow):
        ask_gate(flow)


ASKED = {"": [], "in-line": [AskedInLine()], "beside": [AskedBeside()]}
addons = [House(), *ASKED[os.environ.get("ASKED", "")]]
