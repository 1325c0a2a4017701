"""
Threads, one after the other, with the same tid. The first reads a request and ends without an answer; the second does
unrelated work, then serves a request of its own, and then does unrelated work again.

  reused_tid.py FOLDER FIRST_TRACE SECOND_TRACE     # prints a line, begins when its standard input ends

Each line goes to its own file in FOLDER: `first`, `between`, `second`, `after`.
"""
import os
import socket
import sys
import threading
import time

folder, first_trace, second_trace = sys.argv[1:]
PROVEN = 20
NUMBER_ATTEMPTS = 200


def request(trace):
    return f"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: kreplay/1\r\ntraceparent: 00-{trace}-00f067aa0ba902b7-01\r\n\r\n".encode()


def connection(trace):
    client, server = socket.socketpair()
    client.send(request(trace))
    return client, server


def say(name):
    file = os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, b"line\n")
    os.close(file)


def serve(trace, name):
    client, server = connection(trace)
    server.recv(4096)
    if name:
        say(name)
    server.send(b"HTTP/1.1 200 OK\r\n\r\n")
    client.recv(4096)


def leave_request_open():
    left_open.extend(connection(first_trace))
    left_open[1].recv(4096)
    say("first")


def go_on():
    say("between")
    serve(second_trace, "second")
    say("after")


def thread(work, number=None):
    """Returns the thread's tid once it has ended, for the kernel as well."""
    for _ in range(NUMBER_ATTEMPTS):
        if number:
            with open("/proc/sys/kernel/ns_last_pid", "w") as last:
                last.write(str(number - 1))
        got = []

        def run():
            got.append(threading.get_native_id())
            if number in (None, got[0]):
                work()

        started = threading.Thread(target=run)
        started.start()
        started.join()
        while len(os.listdir("/proc/self/task")) > 1:
            time.sleep(0.001)
        if number in (None, got[0]):
            return got[0]
    sys.exit(f"no thread got the number {number}")


left_open = []
say("started")
print("ready", flush=True)
sys.stdin.read()
for _ in range(PROVEN):
    serve("e" * 32, None)
thread(go_on, thread(leave_request_open))
