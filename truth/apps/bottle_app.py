"""A Bottle application with one habit, named by $HABIT, in front of SQLite; the file lies beside the program.

Every thread has a connection of its own, as the library asks for.
"""

import os
import random
import sqlite3
import threading
import time

import bottle

mine = threading.local()
turn = threading.Lock()
app = bottle.Bottle()


def connection():
    """This thread's; transactions begin and end where the program says so."""
    if not hasattr(mine, "connection"):
        mine.connection = sqlite3.connect("valves.db", isolation_level=None, timeout=30)
        mine.connection.execute(f"pragma synchronous = {os.environ.get('SYNCHRONOUS', 'off')}")
    return mine.connection


def fill():
    with sqlite3.connect("valves.db") as database:
        database.execute("create table valves (id integer primary key, name text, note text)")
        database.execute("create table visits (id integer primary key, page text)")
        database.executemany("insert into valves values (?, ?, ?)",
                             ((n, f"valve {n}", "open and shut " * 4) for n in range(1, 20001)))


def read(begin):
    """Ten valves as of one moment, and 2 ms for what else the page needs."""
    connection().execute(begin)
    first = random.randint(1, 19000)
    rows = [connection().execute("select id, name, note from valves where id = ?", (first + n,)).fetchone() for n in range(10)]
    time.sleep(0.002)
    connection().execute("commit")
    return {"valves": rows}


def visit():
    """Writes one row; a file has one writer at a time, so threads take turns here and not in the library."""
    with turn:
        connection().execute("insert into visits (page) values ('/')")
    return {"visited": True}


HABITS = {
    "begin-immediate": lambda: read("begin immediate"),
    "begin-deferred": lambda: read("begin deferred"),
    "visit": visit,
}
fill()
app.route("/", callback=HABITS[os.environ["HABIT"]])
