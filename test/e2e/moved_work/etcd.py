"""
FOLDER [TRANSACTION]: does what one_log.go does, with each request a put to an etcd that begins with no data.
"""

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

folder, is_recorded = sys.argv[1], len(sys.argv) > 2


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
data = folder + "/etcd"
shutil.rmtree(data, ignore_errors=True)
if is_recorded:
    os.write(os.open("/dev/null", os.O_WRONLY), b"KREPLAY1 proc txn=%s" % sys.argv[2].encode())
server = subprocess.Popen(
    ["etcd", "--data-dir", data, "--logger", "zap", "--log-outputs", "/dev/null"]
    + ["--listen-client-urls", client, "--advertise-client-urls", client]
    # Commits of etcd's database wait for the same disk at unrelated times: put them off.
    + ["--backend-batch-interval", "1h", "--backend-batch-limit", "1000000"]
    + ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"],
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
)


# Random numbers in etcd's records, as short as they can be written, make a record 8 bytes longer than the same one of
# another run, and as long as a later one: the sizes of no two requests may be so near, or one would seem to be missing.
LONGER = 32


def put(number):
    texts = {"key": b"k%d" % number, "value": b"v" * (100 + LONGER * number)}
    body = {name: base64.b64encode(text).decode() for name, text in texts.items()}
    urllib.request.urlopen(f"{client}/v3/kv/put", json.dumps(body).encode(), timeout=10).read()


def is_ready():
    """Whether its cluster has decided on a version: etcd logs that last, before the records of puts."""
    try:
        with urllib.request.urlopen(f"{client}/version", timeout=1) as answer:
            return json.load(answer)["etcdcluster"] != "not_decided"
    except OSError:
        return False


while not is_ready():
    time.sleep(0.1)
slow = []
for number in range(60):
    if number == 31 and is_recorded:
        subprocess.run(["fsfreeze", "--freeze", folder], check=True)
        subprocess.Popen(["sh", "-c", f"sleep 0.3; fsfreeze --unfreeze {folder}"])
    start = time.monotonic()
    put(number)
    if time.monotonic() - start > 0.25:
        slow.append(number)
print(*slow, sep=",")
server.terminate()
server.wait()
