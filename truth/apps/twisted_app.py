"""A Twisted application with one habit, given by name: twisted_app.py PORT HABIT [DATABASE_PORT]."""

import sys

import psycopg2
from twisted.enterprise import adbapi
from twisted.internet import reactor, task
from twisted.web import resource, server

BODY = b"x" * 1024
DATABASE = {"host": "127.0.0.1", "port": int(sys.argv[3]) if len(sys.argv) > 3 else 0, "user": "truth", "dbname": "postgres"}
# A query of 4 ms, none of which is work.
QUERY = "select n, pg_sleep(0.004) from counters where id = 7"
SESSIONS = {n: {"seen": n * 7919 % 100_003, "name": f"valve {n}"} for n in range(60_000)}


def plain(request):
    return BODY


def pool(size):
    """Asks by so many threads, each with a connection."""
    connections = []

    def serve(request):
        if not connections:
            connections.append(adbapi.ConnectionPool("psycopg2", cp_min=size, cp_max=size, **DATABASE))
        asked = connections[0].runQuery(QUERY)
        asked.addCallback(lambda rows: (request.write(BODY), request.finish()))
        return server.NOT_DONE_YET

    return serve


def in_the_reactor():
    """Asks where the events are handled."""
    connections = []

    def serve(request):
        if not connections:
            connections.append(psycopg2.connect(**DATABASE))
            connections[0].autocommit = True
        with connections[0].cursor() as cursor:
            cursor.execute(QUERY)
            cursor.fetchall()
        return BODY

    return serve


def sweep():
    """Sessions that have been silent for long."""
    return [key for key, session in sorted(SESSIONS.items(), key=lambda one: (one[1]["seen"], one[1]["name"]))
            if session["seen"] < 0]


HABITS = {"plain": plain, "swept": plain, "pool-of-one": pool(1), "pool": pool(16), "in-the-reactor": in_the_reactor()}


class Page(resource.Resource):
    isLeaf = True
    serve = staticmethod(HABITS[sys.argv[2]])

    def render_GET(self, request):
        request.setHeader(b"content-type", b"text/plain")
        request.setHeader(b"content-length", str(len(BODY)).encode())
        return self.serve(request)


if sys.argv[2] == "swept":
    task.LoopingCall(sweep).start(0.5, now=False)
site = server.Site(Page())
site.noisy = False
reactor.listenTCP(int(sys.argv[1]), site, interface="127.0.0.1", backlog=511)
reactor.run()
