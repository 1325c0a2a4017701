"""
An HTTP server with a thread for each connection.

  threads.py FOLDER MODE     # prints its port, exits at the end of its standard input

MODE: `plain`; `mark`, the handler first labels its thread with the trace; `label`, with a transaction, if the request
has a user agent; `fork`, a child process writes the lines; `pool`, threads that all handlers share write them;
`forked`, `executed`, processes write them that are made when all others are busy, and that serve all handlers.
"""
import concurrent.futures
import http.server
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.parse

folder, mode = sys.argv[1:]
pool = concurrent.futures.ThreadPoolExecutor(16)
helpers = []
forked = []


def write_line(path, line):
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, f"{line}\n".encode())
    os.close(file)


def serve_lines(requests, answers):
    while request := requests.readline():
        write_line(*request.rstrip().split(" ", 1))
        answers.write("done\n")
        answers.flush()


def fork_helper():
    requests, answers = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        serve_lines(os.fdopen(requests[0]), os.fdopen(answers[1], "w"))
        os._exit(0)
    forked.append(pid)
    return os.fdopen(requests[1], "w"), os.fdopen(answers[0])


def execute_helper():
    loop = 'while read -r path line; do printf "%s\\n" "$line" >>"$path"; echo done; done'
    shell = subprocess.Popen(["/bin/sh", "-c", loop], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return shell.stdin, shell.stdout


def have_written(path, line):
    try:
        requests, answers = helper = helpers.pop()
    except IndexError:
        requests, answers = helper = fork_helper() if mode == "forked" else execute_helper()
    requests.write(f"{path} {line}\n")
    requests.flush()
    answers.readline()
    helpers.append(helper)


def say(path, line):
    if mode == "fork":
        subprocess.run(["/bin/sh", "-c", 'printf "%s\\n" "$1" >>"$2"', "sh", line, path], check=True)
    elif "/early-" in path:
        # The threads and processes that serve all handlers have to be created in a request whose trace is known.
        write_line(path, line)
    elif mode in ("forked", "executed"):
        have_written(path, line)
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
            write_line("/dev/null", f"KREPLAY1 trace={trace}")
        if mode == "label" and "User-Agent" in self.headers:
            write_line("/dev/null", f"KREPLAY1 txn={target.path[1:]}")
        say(path, f"before {trace}")
        time.sleep(int(target.query) / 1000)
        say(path, f"after {trace}")
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
# Each helper holds the pipes of the helpers before it, so none of them sees the end of its input.
for pid in forked:
    os.kill(pid, signal.SIGKILL)
