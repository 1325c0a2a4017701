"""Clients that request large answers from a daemon at once and read them all, and one that requests small answers
meanwhile. Prints JSON."""
import json, multiprocessing, os, resource, socket, sys, threading, time

port, count, path, accept, pid = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5]
SECONDS_MAX = 60
resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


def busy_ms():
    """CPU time of the daemon's main thread, which answers: on a busy machine it waits for its turn, and an answer takes
    longer by the clock."""
    with open(f"/proc/{pid}/task/{pid}/stat") as stat:
        fields = stat.read().rsplit(") ", 1)[1].split()
    return TICK_MS * (int(fields[11]) + int(fields[12]))


def ask(what, media_type="application/json"):
    client = socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX)
    client.sendall(f"GET {what} HTTP/1.1\r\nHost: localhost\r\nAccept: {media_type}\r\nConnection: close\r\n\r\n".encode())
    return client


def read_all(statuses):
    try:
        with ask(path, accept) as client:
            statuses.append(client.recv(64)[9:12].decode())
            while client.recv(1 << 20):
                pass
    except OSError as error:
        statuses.append(type(error).__name__)


def heavy(results):
    statuses = []
    threads = [threading.Thread(target=read_all, args=(statuses,)) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.put(statuses)


def small(what):
    began = busy_ms()
    with ask(what) as client:
        status = client.recv(64)[9:12].decode()
    return [what, status, round(busy_ms() - began)]


results = multiprocessing.Queue()
load = multiprocessing.Process(target=heavy, args=(results,), daemon=True)
load.start()
try:
    # An answer is noticed when it comes, and not when the machine has time for this process.
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
except PermissionError:
    pass
answers, until = [], time.monotonic() + SECONDS_MAX
while load.is_alive() and results.empty() and time.monotonic() < until:
    answers += [small(what) for what in ("/healthz", "/api/nodes", "/metrics")]
    time.sleep(0.05)
print(json.dumps({"small": answers, "heavy": results.get(timeout=SECONDS_MAX)}))
