"""A FastAPI application with one habit, named by $HABIT; $DATABASE is PostgreSQL's port."""

import json
import os
import random
from typing import List

import asyncpg
from fastapi import FastAPI, Response
from pydantic import BaseModel

app = FastAPI()


class Valve(BaseModel):
    id: int
    name: str
    open: bool
    pressure: float
    tags: List[str]


ROWS = [{"id": n, "name": f"valve {n}", "open": n % 2 == 0, "pressure": n / 8, "tags": ["steam", "east"]} for n in range(50)]


@app.on_event("startup")
async def connect():
    if "DATABASE" in os.environ:
        app.state.pool = await asyncpg.create_pool(host="127.0.0.1", port=int(os.environ["DATABASE"]), user="truth",
                                                   database="postgres", min_size=16, max_size=16)


async def one_row():
    row = await app.state.pool.fetchrow("select id, name, note from valves where id = $1", random.randint(1, 20000))
    return dict(row)


async def validated():
    """The framework checks each row against the model and makes a copy of it, then of its fields."""
    return [Valve(**row) for row in ROWS]


async def written():
    return Response(json.dumps(ROWS), media_type="application/json")


HABITS = {"one-row": (one_row, None), "response-model": (validated, List[Valve]), "response": (written, None)}
habit, model = HABITS[os.environ["HABIT"]]
app.get("/", response_model=model)(habit)
