"""
An HTTP server of processes that serve one connection at a time.

  processes.py FOLDER MODE     # prints its port, exits at the end of its standard input

MODE: `prefork`, four processes that are forked in advance; `fork`, one for each connection.
"""
import http.server
import os
import signal
import socketserver
import sys
import threading
import time
import urllib.parse

folder, mode = sys.argv[1:]


def say(path, line):
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, line.encode())
    os.close(file)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        target = urllib.parse.urlsplit(self.path)
        trace = self.headers.get("traceparent", "---").split("-")[1] or "-"
        say(folder + target.path, f"before {trace}\n")
        time.sleep(int(target.query) / 1000)
        say(folder + target.path, f"after {trace}\n")
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Server(http.server.HTTPServer):
    request_queue_size = 64


class ForkingServer(socketserver.ForkingMixIn, Server):
    pass


os.setpgid(0, 0)
server = (ForkingServer if mode == "fork" else Server)(("127.0.0.1", 0), Handler)
for _ in range(4 if mode == "prefork" else 0):
    if os.fork() == 0:
        server.serve_forever()
if mode == "fork":
    threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_port, flush=True)
sys.stdin.read()
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
os.killpg(0, signal.SIGTERM)
signal.pause()
