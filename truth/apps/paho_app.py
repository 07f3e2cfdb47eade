"""Valves of a plant that are set and asked by MQTT, with paho, and what stands for them: paho_app.py fill|valves PORT.

BROKER is the port of the broker, and HABIT one of `Habits`.
"""

import os
import sys
import threading
import time
from itertools import count

from paho.mqtt import client as mqtt
from paho.mqtt import publish

HERE = "127.0.0.1"
VALVES, PATIENCE_S, LOOK_EACH_S = 20_000, 5, 0.05
turns = count()


def connected(port, prepare=lambda client: None):
    """A client that is connected, with its loop in a thread."""
    client, ready = mqtt.Client(), threading.Event()
    client.on_connect = lambda *_: ready.set()
    prepare(client)
    client.max_inflight_messages_set(100)
    client.connect(HERE, port)
    client.loop_start()
    ready.wait(PATIENCE_S)
    return client


def fill(port):
    """What each valve said last is kept by the broker."""
    client = connected(port)
    for made in [client.publish(f"valves/{n}/state", f"open {n % 100} %, by fitter {n % 31}", qos=1, retain=True)
                 for n in range(VALVES)]:
        made.wait_for_publish(60)
    client.disconnect()


def valves(port, ready):
    """What stands for all valves: whoever asks one of them gets an answer."""
    client = connected(port)
    client.on_message = lambda c, _, asked: c.publish(f"answers/{asked.payload.decode()}", "open 40 %")
    client.on_subscribe = lambda *_: open(ready, "w").close()
    client.subscribe("valves/+/ask")
    threading.Event().wait()


class Habits:
    """What a request does."""

    def __init__(self, port):
        self.port = port
        self.answers, self.told = {}, {}
        self.client = connected(port)
        self.client.on_message = self.keep
        self.client.subscribe("answers/#")

    def keep(self, client, userdata, message):
        turn = message.topic.rpartition("/")[2]
        self.answers[turn] = message.payload
        if turn in self.told:
            self.told[turn].set()

    def opened(self):
        """A valve is opened: the broker has said that it knows."""
        self.client.publish(f"valves/{next(turns) % VALVES}/set", "open 40 %", qos=1).wait_for_publish(PATIENCE_S)
        return b"opened\n"

    def opened_singly(self):
        publish.single(f"valves/{next(turns) % VALVES}/set", "open 40 %", qos=1, hostname=HERE, port=self.port)
        return b"opened\n"

    def said(self):
        """What a valve is like now, for everybody who comes later."""
        turn = next(turns)
        made = self.client.publish(f"valves/{turn % VALVES}/state", f"open {turn % 100} %", qos=1, retain=True)
        made.wait_for_publish(PATIENCE_S)
        return b"said\n"

    def asked_and_looked(self):
        turn = str(next(turns))
        self.client.publish(f"valves/{turn}/ask", turn)
        time.sleep(LOOK_EACH_S)
        while turn not in self.answers:
            time.sleep(LOOK_EACH_S)
        return self.answers.pop(turn)

    def asked(self):
        turn = str(next(turns))
        told = self.told[turn] = threading.Event()
        self.client.publish(f"valves/{turn}/ask", turn)
        told.wait(PATIENCE_S)
        del self.told[turn]
        return self.answers.pop(turn)


if __name__ == "__main__":
    {"fill": fill, "valves": valves}[sys.argv[1]](int(sys.argv[2]), *sys.argv[3:])
else:
    habit = getattr(Habits(int(os.environ["BROKER"])), os.environ["HABIT"])


def app(environ, start_response):
    said = habit()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(said)))])
    return [said]
