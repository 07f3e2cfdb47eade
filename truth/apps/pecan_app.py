"""An application of Pecan whose work Celery's workers do: BROKER is the port of Redis; RESULTS says whether results are kept
in files below a directory of this name, and not in Redis. The worker runs from this file too, and makes a file READY."""

import os
import random
import time
from pathlib import Path

import pecan
from celery import Celery, signals

METER_S = 0.01
LIMIT_S = 5
VALVES = [f"valve {n} is open, and is to be shut by the evening" for n in range(200)]

store = f"redis://127.0.0.1:{os.environ['BROKER']}/0"
celery = Celery("plant", broker=store, backend=f"file://{os.environ['RESULTS']}" if "RESULTS" in os.environ else store)
celery.conf.update(worker_prefetch_multiplier=1, result_expires=60, broker_pool_limit=16, broker_connection_retry_on_startup=True)


@celery.task
def note(number):
    """What is known of a valve."""
    return VALVES[number % len(VALVES)]


@celery.task
def meter(number):
    """What a valve's meter shows, which takes its time to say it."""
    time.sleep(METER_S)
    return f"{VALVES[number % len(VALVES)]}: {number % 17}"


@signals.worker_ready.connect
def ready(**_):
    Path(os.environ["READY"]).touch()


class Root:
    @pecan.expose(content_type="text/plain")
    def note(self):
        return note.delay(random.randrange(20_000)).get(timeout=LIMIT_S)

    @pecan.expose(content_type="text/plain")
    def meter(self):
        return meter.delay(random.randrange(20_000)).get(timeout=LIMIT_S)


app = pecan.make_app(Root())
