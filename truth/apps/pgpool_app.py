"""A depot's pages from PostgreSQL through pgpool at $DATABASE (WSGI, psycopg2).

Meters have a table each, made in the database itself at $DIRECT; an order is offered to a supplier at $SUPPLIER.
"""

import http.client
import itertools
import json
import os
import threading

import psycopg2

DATABASE, DIRECT, SUPPLIER = (int(os.environ.get(name, 0)) for name in ("DATABASE", "DIRECT", "SUPPLIER"))
VALVES, COUNTERS, METERS, SHOWN = 20_000, 64, 400, 10
HERE, turns = threading.local(), itertools.count()


def connect(port):
    made = psycopg2.connect(host="127.0.0.1", port=port, user="truth", dbname="postgres")
    made.autocommit = True
    return made


def make_meters():
    with connect(DIRECT) as database, database.cursor() as cursor:
        for n in range(METERS):
            cursor.execute(f"create table if not exists meter_{n} as "
                           "select m as id, m % 97 as level from generate_series(1, 20) m")


def cursor_here():
    """On a connection of the thread's own."""
    if not hasattr(HERE, "database"):
        HERE.database = connect(DATABASE)
    return HERE.database.cursor()


def ask_supplier(number):
    """On a connection of the thread's own."""
    if not hasattr(HERE, "supplier"):
        HERE.supplier = http.client.HTTPConnection("127.0.0.1", SUPPLIER)
    HERE.supplier.request("GET", f"/orders/{number}")
    return HERE.supplier.getresponse().read().decode()


def meters():
    """The highest level of some meters."""
    with cursor_here() as cursor:
        first, levels = next(turns) * SHOWN, []
        for n in range(first, first + SHOWN):
            cursor.execute(f"select max(level) from meter_{n % METERS}")
            levels.append(cursor.fetchone()[0])
    return levels


def shelf():
    """Some valves, one of which gets a note."""
    with cursor_here() as cursor:
        turn, names = next(turns), []
        for n in range(SHOWN):
            cursor.execute("select name from valves where id = %s", ((turn * 7 + n) % VALVES + 1,))
            names.append(cursor.fetchone()[0])
        cursor.execute("update valves set note = %s where id = %s", (f"seen in turn {turn}", turn * 7 % VALVES + 1))
    return names


def order():
    """An order is counted and offered to the supplier, on a connection of this request: pgpool keeps the database's."""
    database = connect(DATABASE)
    try:
        with database.cursor() as cursor:
            cursor.execute("update counters set n = n + 1 where id = %s returning n", (next(turns) % COUNTERS + 1,))
            return ask_supplier(cursor.fetchone()[0])
    finally:
        database.close()


PAGES = {"/meters": meters, "/shelf": shelf, "/order": order}
make_meters()


def app(environ, start_response):
    body = json.dumps(PAGES[environ["PATH_INFO"]]()).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]
