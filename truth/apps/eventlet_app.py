"""A server on eventlet with one habit, given by name: PORT HABIT [SERVICE_PORT or DATABASE_PORT]."""

import eventlet

eventlet.monkey_patch()

import copy
import sys

import psycopg2
from eventlet import db_pool, wsgi
from eventlet.green import socket
from eventlet.pools import Pool
from eventlet.support import psycopg2_patcher

psycopg2_patcher.make_psycopg_green()

PORT, HABIT = int(sys.argv[1]), sys.argv[2]
OTHER = int(sys.argv[3]) if len(sys.argv) > 3 else 0
TEXT = b"x" * 1024
SHELVES = 6
CONNECTIONS = 200
QUERY = "select name from valves, pg_sleep(0.01) where id = 7"

# ---- a service that knows what lies on a shelf ----


class Services(Pool):
    """Connections that are kept open."""

    def create(self):
        return socket.create_connection(("127.0.0.1", OTHER)).makefile("rwb")


services = Services(max_size=CONNECTIONS)


def shelf(number):
    with services.item() as service:
        service.write(b"GET / HTTP/1.1\r\nHost: shelves\r\n\r\n")
        service.flush()
        length = 0
        while (line := service.readline()) != b"\r\n":
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return service.read(length)[:100]


def shelf_by_shelf():
    return b"\n".join(shelf(number) for number in range(SHELVES))


def shelves_at_once():
    return b"\n".join(eventlet.GreenPool(SHELVES).imap(shelf, range(SHELVES)))


# ---- a database that takes 10 ms for a valve ----


def pooled(**size):
    pool = db_pool.RawConnectionPool(psycopg2, host="127.0.0.1", port=OTHER, user="truth", dbname="postgres", **size)

    def valve():
        with pool.item() as connection, connection.cursor() as cursor:
            cursor.execute(QUERY)
            return cursor.fetchone()[0].encode()

    return valve


# ---- options, as an application has them after some years ----

OPTIONS = {f"section_{n}": {f"option_{m}": [m, str(m), {"help": "open and shut"}] for m in range(8)} for n in range(12)}


def options_copied():
    """What a request changes must not be seen by the next one."""
    options = copy.deepcopy(OPTIONS)
    options["section_3"]["option_5"] = "shut"
    return options["section_3"]["option_5"].encode()


def options_beside():
    section = OPTIONS["section_3"] | {"option_5": "shut"}
    return section["option_5"].encode()


HABITS = {
    "plain": lambda: lambda: TEXT,
    "shelf-by-shelf": lambda: shelf_by_shelf,
    "shelves-at-once": lambda: shelves_at_once,
    # Four, unless somebody says otherwise.
    "default-pool": pooled,
    "pool-for-all": lambda: pooled(max_size=CONNECTIONS),
    "options-copied": lambda: options_copied,
    "options-beside": lambda: options_beside,
}
page = HABITS[HABIT]()


def app(environ, start_response):
    body = page()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


wsgi.server(eventlet.listen(("127.0.0.1", PORT)), app, log_output=False)
