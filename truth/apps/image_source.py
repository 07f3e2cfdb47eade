"""A registry of container images elsewhere, which answers late: image_source.py PORT DELAY_MS DIGEST."""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT, DELAY_S, DIGEST = int(sys.argv[1]), float(sys.argv[2]) / 1000, sys.argv[3]


class Handler(BaseHTTPRequestHandler):
    """It gives tokens, and tells which manifest a tag stands for; the manifests are with whoever asks."""

    protocol_version = "HTTP/1.1"
    # Head and body in one piece.
    wbufsize = -1

    def do_GET(self):
        body = b""
        time.sleep(DELAY_S)
        if self.path == "/v2/":
            self.send_response(401)
            self.send_header("WWW-Authenticate", f'Bearer realm="http://127.0.0.1:{PORT}/token",service="images"')
        elif self.path.startswith("/token"):
            body = json.dumps({"token": "open", "expires_in": 3600}).encode()
            self.send_response(200)
        else:
            self.send_response(200)
            self.send_header("Content-Type", "application/vnd.docker.distribution.manifest.v2+json")
            self.send_header("Docker-Content-Digest", DIGEST)
        self.send_header("Docker-Distribution-API-Version", "registry/2.0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *_):
        """Nothing is logged."""


class Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


Server(("127.0.0.1", PORT), Handler).serve_forever()
