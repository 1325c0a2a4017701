"""
A thread for each connection.

  threads.py FOLDER MODE     # prints its port, ends with its standard input

MODE: `plain`; `mark`, the handler first labels its thread with the trace; `label`, with a transaction; `fork`, a child
process writes the lines; `pool`, threads that all handlers share do.
"""
import concurrent.futures
import http.server
import os
import subprocess
import sys
import threading
import time
import urllib.parse

folder, mode = sys.argv[1:]
pool = concurrent.futures.ThreadPoolExecutor(16)


def write_line(path, line):
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, line.encode())
    os.close(file)


def say(path, line):
    if mode == "fork":
        subprocess.run(["/bin/sh", "-c", 'printf %s "$1" >>"$2"', "sh", line, path], check=True)
    elif mode == "pool":
        pool.submit(write_line, path, line).result()
    else:
        write_line(path, line)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        target = urllib.parse.urlsplit(self.path)
        path = folder + target.path
        trace = self.headers.get("traceparent", "---").split("-")[1] or "-"
        self.rfile.read(int(self.headers.get("content-length", 0)))
        if mode == "mark":
            write_line("/dev/null", f"KREPLAY1 trace={trace}\n")
        if mode == "label":
            write_line("/dev/null", f"KREPLAY1 txn={target.path[1:]}\n")
        say(path, f"before {trace}\n")
        time.sleep(int(target.query) / 1000)
        say(path, f"after {trace}\n")
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_POST = do_PROPFIND = do_GET

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_):
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(*_)


server = Server(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_port, flush=True)
sys.stdin.read()
