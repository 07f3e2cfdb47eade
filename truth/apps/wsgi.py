"""A WSGI application: `app` answers at once, `sleeping` waits 10 ms for something else first."""

import time

BODY = b"x" * 1024
HEADERS = [("Content-Type", "text/plain"), ("Content-Length", str(len(BODY)))]


def app(environ, start_response):
    start_response("200 OK", HEADERS)
    return [BODY]


def sleeping(environ, start_response):
    time.sleep(0.01)
    return app(environ, start_response)


# uWSGI takes this name.
def application(environ, start_response):
    return (sleeping if environ["PATH_INFO"] == "/sleep" else app)(environ, start_response)
