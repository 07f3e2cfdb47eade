"""A CherryPy application with one habit, given by name: cherrypy_app.py PORT HABIT THREADS [DATABASE_PORT]."""

import datetime
import sys
import threading

import cherrypy
import psycopg2
from cherrypy.lib.sessions import RamSession

BODY = b"x" * 1024
DATABASE = {"host": "127.0.0.1", "port": int(sys.argv[4]) if len(sys.argv) > 4 else 0, "user": "truth", "dbname": "postgres"}
IDS = list(range(100, 130))
SESSION = "0123456789abcdef0123456789abcdef01234567"
mine = threading.local()


def ask(query, values=()):
    """Over this thread's connection."""
    if not hasattr(mine, "connection"):
        mine.connection = psycopg2.connect(**DATABASE)
        mine.connection.autocommit = True
    with mine.connection.cursor() as cursor:
        cursor.execute(query, values)
        return cursor.fetchall()


def slow_query():
    ask("select n, pg_sleep(0.004) from counters where id = 7")
    return BODY


def row_by_row():
    for number in IDS:
        ask("select name, note from valves where id = %s", (number,))
    return BODY


def all_rows():
    ask("select name, note from valves where id = any(%s)", (IDS,))
    return BODY


HABITS = {"plain": lambda: BODY, "slow-query": slow_query, "row-by-row": row_by_row, "all-rows": all_rows,
          "session": slow_query, "session-read-only": slow_query}
habit = sys.argv[2]


class Page:
    @cherrypy.expose
    def index(self):
        cherrypy.response.headers["Content-Type"] = "text/plain"
        return HABITS[habit]()


cherrypy.config.update({
    "environment": "production", "log.screen": False, "server.socket_host": "127.0.0.1", "server.socket_port": int(sys.argv[1]),
    "server.thread_pool": int(sys.argv[3]), "server.socket_queue_size": 128,
    "tools.sessions.on": habit.startswith("session"),
    "tools.sessions.locking": "explicit" if habit == "session-read-only" else "implicit",
})
# The one user, who has several requests under way.
RamSession.cache[SESSION] = ({}, datetime.datetime.now() + datetime.timedelta(hours=1))
cherrypy.quickstart(Page())
