"""A WSGI application in Apache's mod_wsgi with one habit, named by $HABIT of its process; $SERVICE is what it asks."""

import os
import threading

import requests

HABIT = os.environ.get("HABIT", "plain")
text = b"x" * 1024
mine = threading.local()


def service():
    return os.environ["SERVICE"], os.environ["AUTHORITY"]


def ask_afresh():
    url, authority = service()
    return requests.get(url, verify=authority).content


def ask():
    url, authority = service()
    if not hasattr(mine, "session"):
        mine.session = requests.Session()
    return mine.session.get(url, verify=authority).content


HABITS = {"plain": lambda: text, "ask-afresh": ask_afresh, "ask": ask}


def application(environ, start_response):
    body = HABITS[HABIT]()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
