"""An endpoint for GraphQL (Graphene 2 on Flask) with one habit, named by $HABIT; $DATABASE is PostgreSQL's port."""

import os
import threading

import graphene
import psycopg2
from flask import Flask, g, jsonify, request
from graphql.backend import GraphQLCachedBackend, GraphQLCoreBackend
from promise import Promise
from promise.dataloader import DataLoader

HABIT = os.environ["HABIT"]
app = Flask(__name__)
mine = threading.local()


def ask(query, *values):
    """By this thread's connection."""
    if not hasattr(mine, "connection"):
        mine.connection = psycopg2.connect(host="127.0.0.1", port=os.environ["DATABASE"], user="truth", dbname="postgres")
        mine.connection.autocommit = True
    with mine.connection.cursor() as cursor:
        cursor.execute(query, values)
        return cursor.fetchall()


class Valves(DataLoader):
    """Gathers the keys that the resolvers of one request want."""

    def batch_load_fn(self, keys):
        found = {row[0]: row for row in ask("select id, name, note from valves where id = any(%s)", list(keys))}
        return Promise.resolve([found[key] for key in keys])


class Valve(graphene.ObjectType):
    number = graphene.Int(required=True)
    name = graphene.String(required=True)
    note = graphene.String()

    def resolve_number(row, info):
        return row[0]

    def resolve_name(row, info):
        return row[1]

    def resolve_note(row, info):
        return row[2]


class Order(graphene.ObjectType):
    number = graphene.Int(required=True)
    valve = graphene.Field(Valve)

    def resolve_number(number, info):
        return number

    def resolve_valve(number, info):
        if HABIT == "orders-one-by-one":
            return ask("select id, name, note from valves where id = %s", number * 17)[0]
        return g.valves.load(number * 17)


class Hall(graphene.ObjectType):
    name = graphene.String(required=True)
    pressure = graphene.Float()
    keeper = graphene.String()

    def resolve_name(number, info):
        return f"hall {number}"

    def resolve_pressure(number, info):
        return number / 8

    def resolve_keeper(number, info):
        return f"fitter {number * 7}"


# A type for each kind of meter, with its own unit.
KINDS = [type(f"Meter{n}", (graphene.ObjectType,), {"number": graphene.Int(), "unit": graphene.String(), "last": graphene.Float()})
         for n in range(20)]
Meters = type("Meters", (graphene.ObjectType,), {f"meter{n}": graphene.Field(kind) for n, kind in enumerate(KINDS)})


class Query(graphene.ObjectType):
    meters = graphene.Field(Meters)
    orders = graphene.List(Order, first=graphene.Int(default_value=10))
    hall = graphene.Field(Hall, number=graphene.Int(required=True))

    def resolve_orders(root, info, first):
        return range(1, first + 1)

    def resolve_hall(root, info, number):
        return number


schema = graphene.Schema(query=Query)
backend = GraphQLCachedBackend(GraphQLCoreBackend())
valid = set()
ORDERS = "{ orders(first: 30) { number valve { name } } }"
HALL = "{ hall(number: 7) { name pressure keeper } }"
# What the client's panel shows: the same fields of each hall, by a fragment and by name.
PANEL = "query Panel {%s} fragment Shown on Hall { name pressure }" % " ".join(
    f"hall{n}: hall(number: {n}) {{ ...Shown keeper name pressure }}" for n in range(12))


def executed(query):
    return schema.execute(query, backend=backend)


def executed_by_new_schema(query):
    return graphene.Schema(query=Query).execute(query)


def validated_each_time(query):
    return schema.execute(query)


def validated_once(query):
    """Clients send the same few documents: what was read and found valid is kept."""
    result = schema.execute(query, backend=backend, validate=query not in valid)
    if not result.errors:
        valid.add(query)
    return result


HABITS = {
    "orders-one-by-one": (ORDERS, executed), "orders": (ORDERS, executed), "hall": (HALL, executed),
    "schema-each-time": (HALL, executed_by_new_schema), "panel": (PANEL, validated_each_time),
    "panel-known": (PANEL, validated_once),
}
default, execute = HABITS[HABIT]


@app.route("/graphql")
def answer():
    g.valves = Valves()
    result = execute(request.args.get("query", default))
    if result.errors:
        return jsonify(errors=[str(error) for error in result.errors]), 400
    return jsonify(data=result.data)
