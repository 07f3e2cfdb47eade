"""A page of what a plant's SOAP service says, by zeep, with one habit: HABIT, and the service's port in PLANT."""

import os

import requests
import zeep
from requests.adapters import HTTPAdapter

HABIT = os.environ["HABIT"]
WSDL = f"http://127.0.0.1:{os.environ['PLANT']}/?wsdl"
THREADS = 16


def new_client(connections=THREADS):
    session = requests.Session()
    session.trust_env = HABIT == "environment-trusted"
    session.mount("http://", HTTPAdapter(pool_maxsize=connections, pool_block=True))
    return zeep.Client(WSDL, transport=zeep.Transport(session=session))


kept = None if HABIT == "client-each-time" else new_client(2 if HABIT == "two-connections" else THREADS)


def app(environ, start_response):
    client = kept or new_client()
    reading = client.service.read_meter(17)
    body = f"valve {reading.valve} in hall {reading.hall} shows {reading.bar} bar\n".encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
