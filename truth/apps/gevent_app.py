"""A WSGI application for gunicorn's gevent workers, with one habit, named by $HABIT; $SERVICE is the port of what it asks."""

import json
import os

import gevent.socket
import psycopg2
import psycopg2.extensions
from gevent.queue import Queue
from pymemcache.client.base import Client, PooledClient

BODY = b"x" * 1024
HEADERS = [("Content-Type", "text/plain"), ("Content-Length", str(len(BODY)))]
PORT = int(os.environ.get("SERVICE", "0"))
CONFIGURATION = json.dumps([{"id": n, "name": f"valve {n}", "open": n % 2 == 0} for n in range(1500)])
idle = Queue()
kept = {}


def wait(connection):
    """How the driver waits when greenlets are told to it (what the package psycogreen does)."""
    while (state := connection.poll()) != psycopg2.extensions.POLL_OK:
        if state == psycopg2.extensions.POLL_READ:
            gevent.socket.wait_read(connection.fileno())
        else:
            gevent.socket.wait_write(connection.fileno())


def query():
    """Over a connection that no other greenlet has."""
    connection = idle.get() if idle.qsize() else psycopg2.connect(host="127.0.0.1", port=PORT, user="truth", dbname="postgres")
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("select n, pg_sleep(0.004) from counters where id = 7")
        cursor.fetchall()
    idle.put(connection)


def client():
    """The pool of this process."""
    if "client" not in kept:
        kept["client"] = PooledClient(("127.0.0.1", PORT), max_pool_size=32)
        kept["client"].set("configuration", CONFIGURATION)
        kept["client"].set("valve", b"open")
    return kept["client"]


def new_client():
    one = Client(("127.0.0.1", PORT))
    one.get("valve")
    one.close()


def cached_and_parsed():
    json.loads(client().get("configuration"))


HABITS = {"plain": lambda: None, "query": query, "query-in-greenlets": query, "new-client": new_client,
          "kept-client": lambda: client().get("valve"), "parsed-each-time": cached_and_parsed}
habit = HABITS[os.environ["HABIT"]]
if os.environ["HABIT"] == "query-in-greenlets":
    psycopg2.extensions.set_wait_callback(wait)


def app(environ, start_response):
    habit()
    start_response("200 OK", HEADERS)
    return [BODY]
