"""
Two processes, one after the other, with the same pid. The first ends while a request is under way. The second serves
a request, then another of its threads writes to a file that has the descriptor of the first process's connection, and
then it serves a second request.

  reused_pid.py FOLDER FIRST_TRACE SECOND_TRACE     # prints a line, begins when its standard input ends

The second process writes a line to FOLDER/served for each request: `first` or `second`.
"""
import os
import socket
import sys
import threading
import time

folder, first_trace, second_trace = sys.argv[1:]
DESCRIPTOR = 100
NUMBERS_MAX = 20
NUMBER_ATTEMPTS = 200


def request(trace):
    return f"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: kreplay/1\r\ntraceparent: 00-{trace}-00f067aa0ba902b7-01\r\n\r\n".encode()


def connection(trace):
    client, server = socket.socketpair()
    client.send(request(trace))
    return client, server


def say(line):
    file = os.open(folder + "/served", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, line.encode())
    os.close(file)


def serve(trace, line):
    client, server = connection(trace)
    server.recv(4096)
    say(line)
    server.send(b"HTTP/1.1 200 OK\r\n\r\n")
    client.recv(4096)


def leave_request_open():
    client, server = connection("f" * 32)
    os.dup2(server.fileno(), DESCRIPTOR)
    os.read(DESCRIPTOR, 4096)
    os._exit(0)


def log():
    os.write(DESCRIPTOR, b"x")


def serve_two():
    serve(first_trace, "first\n")
    file = os.open(folder + "/log", os.O_WRONLY | os.O_CREAT)
    os.dup2(file, DESCRIPTOR)
    thread = threading.Thread(target=log)
    thread.start()
    thread.join()
    # Waits until the process has one thread again, also for the kernel.
    while len(os.listdir("/proc/self/task")) > 1:
        time.sleep(0.001)
    serve(second_trace, "second\n")
    os._exit(0)


def child(work, number=None):
    for _ in range(NUMBER_ATTEMPTS):
        if number:
            with open("/proc/sys/kernel/ns_last_pid", "w") as last:
                last.write(str(number - 1))
        pid = os.fork()
        if pid == 0:
            if number and os.getpid() != number:
                os._exit(1)
            work()
        os.waitpid(pid, 0)
        if not number or pid == number:
            return pid
    return None


print("ready", flush=True)
sys.stdin.read()
# Another program's process may have taken the number, and keep it.
for _ in range(NUMBERS_MAX):
    if child(serve_two, child(leave_request_open)):
        sys.exit(0)
sys.exit("no process got the number of the one before it")
