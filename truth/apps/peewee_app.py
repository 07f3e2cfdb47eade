"""Valves of a plant by Peewee in Flask, with one habit, named by $HABIT; $DATABASE is PostgreSQL's port."""

import os
import random

from flask import Flask
from peewee import IntegerField, Model, PostgresqlDatabase, SqliteDatabase, TextField
from playhouse.pool import PooledPostgresqlDatabase

HABIT, SEALS_OF_A_HALL = os.environ["HABIT"], 400
WHERE = {"host": "127.0.0.1", "port": int(os.environ.get("DATABASE", "0")), "user": "truth"}
if HABIT == "connects":
    database = PostgresqlDatabase("postgres", **WHERE)
else:
    database = PooledPostgresqlDatabase("postgres", max_connections=32, stale_timeout=600, **WHERE)
# What PRAGMA says of the file in which visits are counted.
PRAGMAS = {"journal_mode": "wal", "synchronous": "normal"} if HABIT == "visits-in-wal" else {}
visits = SqliteDatabase(os.path.join(os.getcwd(), "visits.db"), pragmas=PRAGMAS, timeout=20)


class Valve(Model):
    id = IntegerField(primary_key=True)
    name = TextField()
    note = TextField()

    class Meta:
        database = database
        table_name = "valves"


class Visit(Model):
    page = TextField()
    who = TextField()

    class Meta:
        database = visits


def valve():
    """One row by its number, over a connection that the request opens and closes, as the manual shows."""
    with database.connection_context():
        return Valve.get_by_id(random.randint(1, 20_000)).note


def of_hall():
    """Valves of which the number begins so."""
    first = random.randrange(0, 19_000)
    return Valve.select().where(Valve.id.between(first, first + SEALS_OF_A_HALL))


def how_many(rows):
    with database.connection_context():
        return f"{rows(of_hall())} valves"


def visit():
    """Each view of a page is a row; a connection stays with its thread."""
    visits.connect(reuse_if_open=True)
    Visit.create(page=f"valve {random.randint(1, 20_000)}", who="fitter")
    return "seen"


HABITS = {
    "valve": valve,
    "connects": valve,
    "len": lambda: how_many(len),
    "count": lambda: how_many(lambda rows: rows.count()),
    "visits": visit,
    "visits-in-wal": visit,
}
work = HABITS[HABIT]
if HABIT.startswith("visits"):
    visits.create_tables([Visit])
app = Flask(__name__)


@app.route("/")
def page():
    return work() + "\n"
