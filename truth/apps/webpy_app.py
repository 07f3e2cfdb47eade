"""A web.py application on Cheroot with one habit, given by name: webpy_app.py PORT HABIT [DATABASE_PORT]."""

import sys
import threading
from pathlib import Path

import psycopg2
import web
from cheroot import wsgi

PORT, HABIT = int(sys.argv[1]), sys.argv[2]
DATABASE = {"host": "127.0.0.1", "port": sys.argv[3] if len(sys.argv) > 3 else "0", "user": "truth", "db": "postgres"}
PAGES = str(Path(__file__).parent / "webpy_pages")
VALVES = [web.storage(id=n, name=f"valve {n}") for n in range(12)]
# A thread for each connection of the load.
THREADS = 16
render = web.template.render(PAGES, cache=HABIT != "templates-each-time")
kept = threading.local()


class KeptDB(web.db.PostgresDB):
    """web.py forgets a connection at the end of its request unless it finds DBUtils; here each thread keeps its own."""

    def _connect(self, keywords):
        if not hasattr(kept, "connection"):
            kept.connection = psycopg2.connect(**keywords)
        return kept.connection


def database():
    if HABIT == "valve-dialled":
        return web.database(dbn="postgres", **DATABASE)
    return KeptDB(**DATABASE)


class Listed:
    def GET(self):
        web.header("Content-Type", "text/html")
        return render.list("Valves", VALVES)


class Valve:
    def GET(self):
        web.header("Content-Type", "text/plain")
        return db.select("valves", what="note", where="id = 7")[0].note


class Plain:
    def GET(self):
        web.header("Content-Type", "text/plain")
        return "x" * 1024


PAGE = {"templates": Listed, "templates-each-time": Listed, "valve": Valve, "valve-dialled": Valve}.get(HABIT, Plain)
web.config.debug = HABIT == "in-debug"
db = database() if PAGE is Valve else None
app = web.application(("/", "Page"), {"Page": PAGE})
server = wsgi.Server(("127.0.0.1", PORT), app.wsgifunc(), numthreads=THREADS, timeout=60)
server.request_queue_size = 128
server.start()
