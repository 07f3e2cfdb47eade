"""A shop on Flask with extensions for sessions, caches and SQLAlchemy, and one habit, named by $HABIT."""

import http.client
import os
import threading

from flask import Flask, session
from flask_caching import Cache
from flask_session import Session
from flask_sqlalchemy import SQLAlchemy

HABIT = os.environ["HABIT"]
app = Flask(__name__)
app.config.update(
    SQLALCHEMY_DATABASE_URI=f"postgresql://truth@127.0.0.1:{os.environ.get('DATABASE', '0')}/postgres",
    SQLALCHEMY_ENGINE_OPTIONS={"pool_size": 16},
    SESSION_TYPE="filesystem",
    SESSION_FILE_DIR=os.environ.get("SESSIONS"),
    SESSION_FILE_THRESHOLD=int(os.environ.get("SESSIONS_AT_MOST", "500")),
    CACHE_TYPE=os.environ.get("CACHE", "SimpleCache"),
)
database = SQLAlchemy(app)
cache = Cache(app)
if "SESSIONS" in os.environ:
    Session(app)
mine = threading.local()


class Valve(database.Model):
    __tablename__ = "valves"
    id = database.Column(database.Integer, primary_key=True)
    name = database.Column(database.Text)
    note = database.Column(database.Text)


def ask():
    """What another system says of the day's price, by this thread's connection."""
    if not hasattr(mine, "service"):
        mine.service = http.client.HTTPConnection("127.0.0.1", int(os.environ["SERVICE"]))
    mine.service.request("GET", "/bytes/16")
    return mine.service.getresponse().read().hex()


@cache.memoize(timeout=600)
def price(valve):
    return ask()


def listed(**flags):
    """The first page of what can be found."""
    found = Valve.query.filter(Valve.note.like("%shut%")).order_by(Valve.id)
    return "\n".join(f"{valve.id} {valve.name}" for valve in found.paginate(page=1, per_page=10, **flags).items)


def visited():
    session["seen"] = "hall 7"
    return "hall 7\n" * 40


PAGES = {"listed": listed, "listed-uncounted": lambda: listed(count=False), "visited": visited,
         "price": lambda: price(7)}


@app.get("/")
def page():
    return PAGES[HABIT](), {"Content-Type": "text/plain"}
