#!/usr/bin/env python3
"""A small program to stand behind `weir proxy`: pages, a download of no told length, events, an upload. Python 3, nothing else."""

import http.server
import socketserver
import sys
import time

DOWNLOAD_BYTES_MAX = 1 << 30
UPLOAD_BYTES_MAX = 64 << 20
EVENTS = 30

PAGE = """<!doctype html>
<title>An app behind Weir</title>
<h1>An app behind Weir</h1>
<p><a href="/page">a small page</a>, <a href="/download/50000000">a download of 50 MB</a> whose length is not told,
<a href="/events">events</a>, one a second. <code>curl --data-binary @FILE URL/upload</code> counts bytes.</p>
<pre>{}</pre>
"""


class App(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def whole(self, status, body, kind="text/html; charset=utf-8"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def chunks(self, kind, parts):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for part in parts:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        self.wfile.write(b"0\r\n\r\n")

    def do_GET(self):
        if self.path.startswith("/download/") and self.path[10:].isdecimal():
            left, portion = min(int(self.path[10:]), DOWNLOAD_BYTES_MAX), 16384
            sizes = [portion] * (left // portion) + [left % portion] * (left % portion > 0)
            self.chunks("application/octet-stream", (b"x" * size for size in sizes))
        elif self.path == "/events":
            self.chunks("text/event-stream", self.events())
        elif self.path in ("/", "/page"):
            self.whole(200, PAGE.format(self.headers).encode())
        else:
            self.whole(404, b"nothing is here\n", "text/plain")

    do_HEAD = do_GET

    def events(self):
        for count in range(EVENTS):
            yield b"data: %d\n\n" % count
            time.sleep(1)

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > UPLOAD_BYTES_MAX:
            self.close_connection = True
            return self.whole(413, b"expected a length of 64 MiB at most\n", "text/plain")
        left = int(length)
        while left > 0:
            left -= len(self.rfile.read(min(left, 65536))) or left
        self.whole(200, b"%d bytes\n" % int(length), "text/plain")


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 128


if __name__ == "__main__":
    if len(sys.argv) != 2 or not sys.argv[1].isdecimal():
        sys.exit("app.py: expected a port: python3 app.py 3000")
    try:
        Server(("127.0.0.1", int(sys.argv[1])), App).serve_forever()
    except KeyboardInterrupt:
        pass
