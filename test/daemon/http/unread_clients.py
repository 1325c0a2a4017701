"""Clients that send requests to a daemon and do not read, and one that requests small answers. Prints JSON."""
import json, os, resource, socket, sys, time

port, count, path, accept, pid = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5]
MORE_MIB_MAX = int(sys.argv[6])
resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


def busy_ms():
    """CPU time of the daemon's main thread, which answers: on a busy machine it waits for its turn, and an answer takes
    longer by the clock."""
    with open(f"/proc/{pid}/task/{pid}/stat") as stat:
        fields = stat.read().rsplit(") ", 1)[1].split()
    return TICK_MS * (int(fields[11]) + int(fields[12]))


def resident_mib():
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmRSS"))


def ask(what, media_type="application/json", timeout=60):
    client = socket.create_connection(("127.0.0.1", port), timeout=timeout)
    client.sendall(f"GET {what} HTTP/1.1\r\nHost: localhost\r\nAccept: {media_type}\r\nConnection: close\r\n\r\n".encode())
    return client


def small(what):
    began = busy_ms()
    try:
        with ask(what) as client:
            status = client.recv(64)[9:12].decode()
    except OSError as error:
        status = type(error).__name__
    return [what, status, round(busy_ms() - began)]


def page_ms():
    """CPU time that a page takes which is read: what this machine takes for work of a known size."""
    began = busy_ms()
    with ask("/api/events?limit=10000") as client:
        while client.recv(1 << 20):
            pass
    return busy_ms() - began


def watch(seconds):
    """Sends small requests repeatedly; returns the answers and the peak memory."""
    answers, most, until = [], 0, time.monotonic() + seconds
    while time.monotonic() < until:
        answers += [small(what) for what in ("/healthz", "/readyz", "/metrics", "/api/nodes")]
        most = max(most, resident_mib())
        time.sleep(0.1)
    return answers, most


try:
    # An answer is noticed when it comes, and not when the machine has time for this process.
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
except PermissionError:
    pass
before = resident_mib()
page = sorted(page_ms() for _ in range(9))[4]
held = []
while len(held) < count:
    try:
        held.append(ask(path, accept))
    except OSError:
        break
first, most_first = watch(2)
then, most_then = watch(4)
for client in held:
    client.close()
until = time.monotonic() + 30
while resident_mib() - before >= MORE_MIB_MAX and time.monotonic() < until:
    time.sleep(0.1)
after = resident_mib()
seen = {"before": before, "most": max(most_first, most_then), "after": after, "page": page, "first": first, "then": then}
print(json.dumps(seen))
