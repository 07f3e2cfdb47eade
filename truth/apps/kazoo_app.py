"""An application that keeps in ZooKeeper what its processes share, by kazoo.

ZOOKEEPER is its port, HABIT one of `Habits`, SUPPLIER the port of who is asked about stock, and JOBS how many there are.
"""

import http.client
import os
import threading
from itertools import count

from kazoo.client import KazooClient

HOSTS = f"127.0.0.1:{os.environ['ZOOKEEPER']}"
SETTINGS, VALVES, SHOWN = 20, 64, 10
turns = count()
own = threading.local()


def connected():
    client = KazooClient(hosts=HOSTS)
    client.start()
    return client


shared = connected()


def fill():
    """As it has grown: settings, valves, and jobs that were done or not."""
    for path in ("/settings", "/valves", "/locks", "/jobs"):
        shared.ensure_path(path)
    names = [f"/settings/s{n}" for n in range(SETTINGS)] + [f"/valves/v{n}" for n in range(VALVES)]
    names += [f"/jobs/job-of-hall-{n % 7}-{n:010}" for n in range(int(os.environ.get("JOBS", "0")))]
    for made in [shared.create_async(name, b"open and shut") for name in names]:
        made.get()


def ask_supplier(valve):
    if not hasattr(own, "supplier"):
        own.supplier = http.client.HTTPConnection("127.0.0.1", int(os.environ["SUPPLIER"]))
    own.supplier.request("GET", f"/stock/{valve}")
    return own.supplier.getresponse().read()


def setting(client):
    value, _ = client.get(f"/settings/s{next(turns) % SETTINGS}")
    return value


def reserve(valve, lock):
    """What the supplier has is written down, and nobody else does that meanwhile."""
    with shared.Lock(f"/locks/{lock}"):
        said = ask_supplier(valve)
        shared.set(f"/valves/v{valve}", said)
    return said


class Habits:
    """What a request does."""

    @staticmethod
    def setting():
        return setting(shared)

    @staticmethod
    def setting_with_session():
        client = connected()
        try:
            return setting(client)
        finally:
            client.stop()
            client.close()

    @staticmethod
    def reserve_alone():
        return reserve(next(turns) % VALVES, "stock")

    @staticmethod
    def reserve_valve():
        valve = next(turns) % VALVES
        return reserve(valve, f"v{valve}")

    @staticmethod
    def next_jobs():
        return "\n".join(sorted(shared.get_children("/jobs"))[:SHOWN]).encode()


fill()
habit = getattr(Habits, os.environ["HABIT"])


def app(environ, start_response):
    said = habit()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(said)))])
    return [said]
