"""What tells Alertmanager of 600 valves' alerts, as Prometheus does, and keeps a silence alive.

alerts.py PORT ALERTMANAGER RENEWED_S: one silence of those that are there is renewed each RENEWED_S seconds.
"""

import http.client
import json
import socket
import sys
import threading
import time
from datetime import datetime, timedelta, timezone

PORT, ALERTMANAGER, RENEWED_S = map(int, sys.argv[1:])
ALERTS, TOLD_AGAIN_S, HALLS, CRITICAL = 600, 30, 30, 100
KEPT = ("id", "matchers", "startsAt", "createdBy", "comment")


def alert(n):
    """Each hundredth is critical."""
    return {"labels": {"alertname": f"Pressure{n % 10}", "machine": f"valve-{n}", "hall": str(n % HALLS), "team": f"fitters-{n % 7}",
                       "severity": "critical" if n % CRITICAL == 0 else "warning"},
            "annotations": {"summary": f"The pressure at valve {n} in hall {n % HALLS} is too high.",
                            "runbook": f"https://plant.example.org/runbooks/pressure-{n % 10}"},
            "generatorURL": f"https://plant.example.org/graph?g0.expr=pressure%7Bmachine%3D%22valve-{n}%22%7D"}


def ask(connection, method, path, what=None):
    connection.request(method, path, json.dumps(what), {"Content-Type": "application/json"})
    return json.loads(connection.getresponse().read() or "null")


def renew(connection, silence):
    end = datetime.now(timezone.utc) + timedelta(hours=1)
    ask(connection, "POST", "/api/v2/silences", silence | {"endsAt": end.isoformat()})


def tell():
    connection = http.client.HTTPConnection("127.0.0.1", ALERTMANAGER)
    while True:
        try:
            connection.connect()
            break
        except OSError:
            time.sleep(0.02)
    silences = [{key: one[key] for key in KEPT} for one in ask(connection, "GET", "/api/v2/silences")[:1]]
    told, renewed = 0, time.monotonic()
    while True:
        now = time.monotonic()
        if now - told >= TOLD_AGAIN_S:
            ask(connection, "POST", "/api/v2/alerts", [alert(n) for n in range(ALERTS)])
            told = now
        if now - renewed >= RENEWED_S:
            for silence in silences:
                renew(connection, silence)
            renewed = now
        time.sleep(1)


with socket.create_server(("127.0.0.1", PORT)) as ready:
    threading.Thread(target=tell).start()
    while True:
        ready.accept()[0].close()
