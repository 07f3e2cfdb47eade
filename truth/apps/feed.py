"""News as RSS, after a while: feed.py PORT MILLISECONDS."""

import http.server
import sys
import time

ITEM = "<item><title>Valve {0} was shut</title><link>https://example.org/{0}</link><description>It was open.</description></item>"
FEED = ('<?xml version="1.0"?><rss version="2.0"><channel><title>News</title><link>https://example.org/</link>'
        f"<description>News</description>{''.join(ITEM.format(n) for n in range(5))}</channel></rss>").encode()


class News(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_GET(self):
        time.sleep(float(sys.argv[2]) / 1000)
        self.send_response(200)
        self.send_header("Content-Type", "application/rss+xml")
        self.send_header("Content-Length", str(len(FEED)))
        self.end_headers()
        self.wfile.write(FEED)

    def log_message(self, *what):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128


Server(("127.0.0.1", int(sys.argv[1])), News).serve_forever()
