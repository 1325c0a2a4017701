"""
A server of requests that executes itself, to serve others in another way.

  executed.py FOLDER BEFORE AFTER     # each way begins when a line comes on its standard input

It writes FOLDER/WAY-ready first. The ways:
  threads   20 threads, one after the other, serve a request each, and write FOLDER/threads-NUMBER for it
  single    the only thread serves a request, and writes FOLDER/single-0
  events    the only thread waits for many connections, and serves none
  worker    a thread reads a request that another one serves; the reader writes FOLDER/worker-reader for no request
"""
import os
import select
import socket
import sys
import threading
import time

folder, way, *later = sys.argv[1:]
REQUEST = (
    b"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: kreplay/1\r\n"
    b"traceparent: 00-" + 32 * b"a" + b"-00f067aa0ba902b7-01\r\n\r\n"
)


def connection():
    client, server = socket.socketpair()
    client.send(REQUEST)
    return client, server


def say(name):
    file = os.open(f"{folder}/{way}-{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, b"line\n")
    os.close(file)


def answer(client, server):
    server.send(b"HTTP/1.1 200 OK\r\n\r\n")
    client.recv(4096)


def serve(number):
    client, server = connection()
    server.recv(4096)
    say(number)
    answer(client, server)


def threads():
    for number in range(20):
        thread = threading.Thread(target=serve, args=[number])
        thread.start()
        thread.join()
    # An exec ends the other threads; here they are gone by then, for the kernel as well.
    while len(os.listdir("/proc/self/task")) > 1:
        time.sleep(0.001)


def events():
    poll = select.epoll()
    client, server = connection()
    poll.register(server)
    poll.poll()
    poll.close()


def worker():
    client, server = connection()
    is_read = threading.Event()

    def work():
        is_read.wait()
        say("served")
        answer(client, server)

    thread = threading.Thread(target=work)
    thread.start()
    server.recv(4096)
    say("reader")
    is_read.set()
    thread.join()


WAYS = {"threads": threads, "single": lambda: serve(0), "events": events, "worker": worker}
say("ready")
os.read(0, 3)
WAYS[way]()
if later:
    os.execv(sys.executable, [sys.executable, sys.argv[0], folder, *later])
