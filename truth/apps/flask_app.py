"""A Flask application with one habit, named by $HABIT; $DATABASE is MariaDB's port, $CACHE memcached's."""

import os
import random
import threading
import time

import jinja2
import pymysql
from flask import Flask, render_template, render_template_string
from pymemcache.client.base import PooledClient

PAGE = """<html><head><title>{{ title }}</title></head><body><h1>{{ title }}</h1>
<table>{% for note in notes %}<tr class="{{ loop.cycle('odd', 'even') }}"><td>{{ loop.index }}</td><td>{{ note }}</td></tr>
{% else %}<tr><td>Nothing is known of {{ title }}.</td></tr>{% endfor %}</table>
{% if notes|length > 10 %}<p>{{ notes|length }} notes</p>{% endif %}</body></html>"""
REPORT = "select count(*), min(name), max(name) from valves where note like '%shut%'"
mine = threading.local()
app = Flask(__name__)
app.jinja_loader = jinja2.DictLoader({"page.html": PAGE})
cache = PooledClient(("127.0.0.1", int(os.environ.get("CACHE", "0"))), max_pool_size=32)


def connection():
    """This thread's."""
    if not hasattr(mine, "connection"):
        mine.connection = pymysql.connect(host="127.0.0.1", port=int(os.environ["DATABASE"]), user="truth", database="truth",
                                          autocommit=True)
    return mine.connection


def ask(query, values=None):
    with connection().cursor() as cursor:
        cursor.execute(query, values)
        return cursor.fetchall()


def valve(query, value):
    return render_template("page.html", title=value, notes=[note for note, in ask(query, (value,))])


def by_id():
    return valve("select note from valves where id = %s", random.randint(1, 20000))


def by_name():
    return valve("select note from valves where name = %s", f"valve {random.randint(1, 20000)}")


def count(number):
    """One more visit; what else belongs to the transaction takes 2 ms."""
    connection().begin()
    ask("update counters set n = n + 1 where id = %s", (number,))
    ask("select sleep(0.002)")
    connection().commit()
    return "counted"


def report(key):
    found = cache.get(key)
    if found is None:
        found = repr(ask(REPORT)).encode()
        cache.set(key, found, expire=3600)
    return found


HABITS = {
    "by-id": by_id,
    "by-name": by_name,
    "one-counter": lambda: count(7),
    "many-counters": lambda: count(random.randint(1, 64)),
    "report-of-this-moment": lambda: report(f"report:{time.time()}"),
    "report-of-the-day": lambda: report("report:" + time.strftime("%F")),
    "template-string": lambda: render_template_string(PAGE, title="valve 7", notes=["open", "shut"]),
    "template": lambda: render_template("page.html", title="valve 7", notes=["open", "shut"]),
}
app.add_url_rule("/", "page", HABITS[os.environ["HABIT"]])
