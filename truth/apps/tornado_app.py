"""A Tornado application with one habit, given by name: tornado_app.py PORT HABIT."""

import asyncio
import hashlib
import hmac
import os
import sys

import tornado.web

BODY = b"x" * 1024
JOURNAL = open("journal", "wb", buffering=0)


class Handler(tornado.web.RequestHandler):
    def prepare(self):
        self.set_header("Content-Type", "text/plain")

    def get(self):
        self.write(BODY)


class Chunks(Handler):
    """A table sent cell by cell."""

    async def get(self):
        for _ in range(100):
            self.write(BODY[:100])
            await self.flush()


class OnePiece(Handler):
    def get(self):
        for _ in range(100):
            self.write(BODY[:100])


class Password(Handler):
    """Who sends a password with every request has it stretched every time."""

    def get(self):
        hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", 5000)
        self.write(BODY)


class Session(Handler):
    def get(self):
        hmac.digest(b"secret", b"session", "sha256")
        self.write(BODY)


class Audit(Handler):
    def get(self):
        JOURNAL.write(BODY)
        os.fsync(JOURNAL.fileno())
        self.write(BODY)


class Journal(Handler):
    def get(self):
        JOURNAL.write(BODY)
        self.write(BODY)


HABITS = {"plain": Handler, "chunks": Chunks, "one-piece": OnePiece, "password": Password, "session": Session,
          "audit": Audit, "journal": Journal}


async def main():
    tornado.web.Application([("/", HABITS[sys.argv[2]])]).listen(int(sys.argv[1]), "127.0.0.1")
    await asyncio.Event().wait()


asyncio.run(main())
