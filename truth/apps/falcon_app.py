"""A Falcon application with one habit, named by $HABIT; $DATABASE is PostgreSQL's port, $CACHE memcached's, $STORE Redis'."""

import json
import os
import random
import threading

import falcon
import psycopg2
import redis
from pymemcache.client.base import PooledClient

mine = threading.local()
cache = PooledClient(("127.0.0.1", int(os.environ.get("CACHE", "0"))), max_pool_size=32)
store = redis.Redis(port=int(os.environ.get("STORE", "0")))
# Adds up what a cart holds, item by item, where the cart lies.
ADD_UP = """
local sum = 0
for item = 1, 400 do
    sum = sum + tonumber(redis.call('hget', KEYS[1], 'item:' .. item) or 0)
end
redis.call('set', KEYS[1] .. ':sum', sum)
return sum
"""


def ask(query, values=None):
    """Over this thread's connection."""
    if not hasattr(mine, "connection"):
        mine.connection = psycopg2.connect(host="127.0.0.1", port=os.environ["DATABASE"], user="truth", dbname="postgres")
        mine.connection.autocommit = True
    with mine.connection.cursor() as cursor:
        cursor.execute(query, values)
        return cursor.fetchall()


def one_row():
    return {"note": ask("select note from valves where id = %s", (random.randint(1, 20000),))[0][0]}


def visits():
    return {"n": ask("select n from counters where id = 1")[0][0]}


def by_note():
    """The first of all notes in the order of their names turned round, as no index has it."""
    rows = ask("select reverse(name), note from valves where id <= 4000 order by 1, 2 offset 3990")
    return {"names": [name for name, _ in rows]}


def report():
    """1.1 MiB, which is kept for an hour; the page shows how much it is."""
    found = cache.get("report")
    if found is None:
        found = json.dumps([{"id": n, "name": f"valve {n}", "note": "open and shut " * 4} for n in range(11000)]).encode()
        try:
            cache.set("report", found, expire=3600)
        except OSError:
            pass
    return {"bytes": len(found)}


def add_up():
    return {"sum": store.evalsha(mine_script(), 1, "cart")}


def mine_script():
    if not hasattr(mine, "script"):
        mine.script = store.script_load(ADD_UP)
    return mine.script


HABITS = {
    "one-row": one_row,
    "visits": visits,
    "sorted": by_note,
    "report": report,
    "added-up": add_up,
    "kept-sum": lambda: {"sum": int(store.get("cart:sum") or 0)},
}
work = HABITS[os.environ["HABIT"]]


class Page:
    def on_get(self, request, response):
        response.media = work()


app = falcon.App()
app.add_route("/", Page())
