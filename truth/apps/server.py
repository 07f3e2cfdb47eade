"""A small HTTP/1.1 server with one habit, given by name: server.py PORT HABIT.

It keeps connections and writes an answer in one piece, whatever its habit is, unless the habit is about just that.
"""

import asyncio
import collections
import json
import mmap
import os
import queue
import re
import select
import socket
import subprocess
import sys
import threading
import time

BODY = b"x" * 1024
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n"
RECEIVE = 65536
LOCK = threading.Lock()
JOURNAL = open("journal", "wb", buffering=0)
RECORDS = json.dumps([{"id": n, "name": f"valve {n}", "readings": list(range(20))} for n in range(100)])
# Matches late: every prefix is tried with every division into groups.
SLOW_PATTERN = re.compile(r"^(a|aa|aaa)+b$")


# ---- habits of the work ----


def no_work():
    return BODY


def sleep():
    time.sleep(0.01)
    return BODY


def sleep_with_lock():
    with LOCK:
        time.sleep(0.003)
    return BODY


def sleep_without_lock():
    time.sleep(0.003)
    return BODY


def interpret():
    """Work for the interpreter alone."""
    total = 0
    for number in range(20_000):
        total += number * number % 7
    return BODY[:-8] + b"%08d" % (total % 10**8)


def parse():
    """Work for a JSON library."""
    records = json.loads(RECORDS)
    return json.dumps([record for record in records if record["id"] % 2]).encode()


def match():
    SLOW_PATTERN.match("a" * 18 + "c")
    return BODY


def write_journal():
    JOURNAL.write(BODY)
    return BODY


def sync_journal():
    write_journal()
    os.fsync(JOURNAL.fileno())
    return BODY


def read_in_pieces():
    with open(JOURNAL.name, "rb", buffering=0) as file:
        while file.read(64):
            pass
    return BODY


def read_at_once():
    with open(JOURNAL.name, "rb", buffering=0) as file:
        file.read(1 << 20)
    return BODY


def read_from_disk():
    """64 KB past the page cache, into pages of its own: the kernel takes no others for a direct read."""
    file = os.open(JOURNAL.name, os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, 1 << 16) as pages:
            os.readv(file, [pages])
    finally:
        os.close(file)
    return BODY


def spawn():
    subprocess.run(["/bin/true"], check=True)
    return BODY


PAGES = b"1" * (8 << 8)


def map_and_unmap():
    """Buffers of 8 MB that the allocator may take from the kernel and give back every time."""
    for _ in range(2):
        buffer = bytearray(8 << 20)
        buffer[::4096] = PAGES
        del buffer
    return BODY


def keep_and_reuse(buffer=bytearray(8 << 20)):
    """The same buffers' worth of use without their allocation."""
    for _ in range(2):
        buffer[::4096] = PAGES
    return BODY


# ---- ways to serve ----


def with_file(serve):
    """Serves with 64 KB in the journal."""
    JOURNAL.write(BODY * 64)
    os.fsync(JOURNAL.fileno())
    serve()


def read_request(connection, left):
    """Bytes after the next request's head; None at the end. These clients send no bodies."""
    while b"\r\n\r\n" not in left:
        data = connection.recv(RECEIVE)
        if not data:
            return None
        left += data
    return left.partition(b"\r\n\r\n")[2]


def answer_whole(connection, body):
    connection.sendall(HEAD % len(body) + body)


def answer_in_two(connection, body):
    """Head and body by two sends: the second waits for the first's acknowledgement, which the peer delays."""
    connection.sendall(HEAD % len(body))
    connection.sendall(body)


def answer_in_pieces(connection, body):
    connection.sendall(HEAD % (64 * len(body)))
    text = body * 64
    for begin in range(0, len(text), 100):
        connection.sendall(text[begin:begin + 100])


def answer_large(connection, body):
    text = body * 64
    connection.sendall(HEAD % len(text) + text)


def serve_connection(connection, work, answer, no_delay):
    with connection:
        if no_delay:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        left = b""
        try:
            while (left := read_request(connection, left)) is not None:
                answer(connection, work())
        except OSError:
            pass


def listener(port, backlog=1024):
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind(("127.0.0.1", port))
    one.listen(backlog)
    return one


def threads(port, work, answer=answer_whole, no_delay=True, backlog=1024):
    """A thread for every connection."""
    accepting = listener(port, backlog)
    while True:
        connection, _ = accepting.accept()
        threading.Thread(target=serve_connection, args=(connection, work, answer, no_delay), daemon=True).start()


def pool(port, work):
    """Threads that are started once and take connections."""
    accepting = listener(port)

    def take():
        while True:
            connection, _ = accepting.accept()
            serve_connection(connection, work, answer_whole, True)

    for _ in range(64):
        threading.Thread(target=take, daemon=True).start()
    threading.Event().wait()


def one_by_one(port, work):
    """One thread: whoever is connected is served until it leaves."""
    accepting = listener(port)
    while True:
        serve_connection(accepting.accept()[0], work, answer_whole, True)


def event_loop(port, work, first=None):
    """One event loop; `work` may be a coroutine function."""

    class Connection(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport, self.left = transport, b""

        def data_received(self, data):
            self.left += data
            while b"\r\n\r\n" in self.left:
                self.left = self.left.partition(b"\r\n\r\n")[2]
                if asyncio.iscoroutinefunction(work):
                    asyncio.get_running_loop().create_task(self.later())
                else:
                    self.write(work())

        async def later(self):
            self.write(await work())

        def write(self, body):
            self.transport.write(HEAD % len(body) + body)

    async def forever():
        server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port, backlog=1024)
        if first:
            first()
        await server.serve_forever()

    asyncio.run(forever())


async def sleep_elsewhere():
    await asyncio.sleep(0.01)
    return BODY


def ask(port, other):
    """Every thread keeps a connection to the other service."""
    local = threading.local()

    def work():
        if not hasattr(local, "connection"):
            local.connection = socket.create_connection(("127.0.0.1", int(other)))
        local.connection.sendall(b"GET /bytes/16 HTTP/1.1\r\nHost: service\r\n\r\n")
        local.connection.recv(RECEIVE)
        return BODY

    threads(port, work)


def ask_through_pool(port, other, size):
    """As ask, over a pool of connections that all threads share."""
    pool = queue.SimpleQueue()
    for _ in range(size):
        pool.put(socket.create_connection(("127.0.0.1", int(other))))

    def work():
        connection = pool.get()
        connection.sendall(b"GET /bytes/16 HTTP/1.1\r\nHost: service\r\n\r\n")
        connection.recv(RECEIVE)
        pool.put(connection)
        return BODY

    threads(port, work)


def herd(port, flags):
    """16 processes that wait for the same listener, and serve one request of each connection."""
    accepting = listener(port)
    accepting.setblocking(False)
    for _ in range(15):
        if os.fork() == 0:
            break
    waiting = select.epoll()
    waiting.register(accepting, select.EPOLLIN | flags)
    while True:
        waiting.poll()
        try:
            connection, _ = accepting.accept()
        except BlockingIOError:
            continue
        with connection:
            connection.setblocking(True)
            if read_request(connection, b"") is not None:
                answer_whole(connection, BODY)


def unread(port, read_all):
    """An answer and a close as soon as the head is read; what of the body was not read makes the close a reset."""
    # More than the sockets' buffers hold while the client is still sending: the reset throws the rest away. Made once,
    # as buffers of this size are mapped and unmapped.
    answer = BODY * 128
    whole = HEAD.replace(b"\r\n", b"\r\nConnection: close\r\n", 1) % len(answer) + answer

    def serve(connection):
        with connection:
            received = connection.recv(1024)
            head, _, body = received.partition(b"\r\n\r\n")
            told = re.search(rb"(?i)content-length: (\d+)", head)
            length = int(told[1]) if told else 0
            left = length - len(body) if read_all else 0
            while left > 0 and (piece := connection.recv(RECEIVE)):
                left -= len(piece)
            connection.sendall(whole)

    accepting = listener(port)
    while True:
        connection, _ = accepting.accept()
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


def forget(port):
    """A server that, unless told to close, still holds the last 300 connections that their clients have closed."""
    forgotten = collections.deque(maxlen=300)
    closes = len(sys.argv) > 3

    def serve(connection):
        while connection.recv(RECEIVE):
            connection.sendall(HEAD % len(BODY) + BODY)
        if closes:
            connection.close()
        else:
            forgotten.append(connection)

    accepting = listener(port)
    while True:
        try:
            connection, _ = accepting.accept()
        except OSError:
            time.sleep(0.01)
            continue
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


def busy(port):
    """An event loop that never sleeps."""

    def again():
        asyncio.get_running_loop().call_soon(again)

    event_loop(port, no_work, first=again)


def bytewise(port):
    global RECEIVE
    RECEIVE = 1
    threads(port, no_work)


HABITS = {
    "asyncio": lambda port: event_loop(port, no_work),
    "asyncio-blocking": lambda port: event_loop(port, sleep),
    "asyncio-waiting": lambda port: event_loop(port, sleep_elsewhere),
    "threads": lambda port: threads(port, no_work),
    "pool": lambda port: pool(port, no_work),
    "sleep": lambda port: threads(port, sleep),
    "lock": lambda port: threads(port, sleep_with_lock),
    "no-lock": lambda port: threads(port, sleep_without_lock),
    "interpret": lambda port: event_loop(port, interpret),
    "interpret-threads": lambda port: threads(port, interpret),
    "json": lambda port: event_loop(port, parse),
    "regex": lambda port: event_loop(port, match),
    "fsync": lambda port: threads(port, sync_journal),
    "write": lambda port: threads(port, write_journal),
    "spawn": lambda port: threads(port, spawn),
    "map": lambda port: event_loop(port, map_and_unmap),
    "reuse": lambda port: event_loop(port, keep_and_reuse),
    "two-sends": lambda port: threads(port, no_work, answer_in_two, no_delay=False),
    "two-sends-no-delay": lambda port: threads(port, no_work, answer_in_two, no_delay=True),
    "pieces": lambda port: threads(port, no_work, answer_in_pieces),
    "large": lambda port: threads(port, no_work, answer_large),
    "one-by-one": lambda port: one_by_one(port, no_work),
    "tiny-reads": lambda port: with_file(lambda: threads(port, read_in_pieces)),
    "disk-read": lambda port: with_file(lambda: threads(port, read_from_disk)),
    "one-read": lambda port: with_file(lambda: threads(port, read_at_once)),
    "bytewise": bytewise,
    "busy": busy,
    "ask": lambda port: ask(port, sys.argv[3]),
    "ask-pool": lambda port: ask_through_pool(port, sys.argv[3], int(sys.argv[4])),
    "herd": lambda port: herd(port, 0),
    "no-herd": lambda port: herd(port, select.EPOLLEXCLUSIVE),
    "forget": forget,
    "body-unread": lambda port: unread(port, False),
    "body-read": lambda port: unread(port, True),
    "small-backlog": lambda port: threads(port, no_work, backlog=1),
}

if __name__ == "__main__":
    HABITS[sys.argv[2]](int(sys.argv[1]))
