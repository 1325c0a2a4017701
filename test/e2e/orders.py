"""Takes orders until it is ended, and notes in a log of its own which ones were slow: `orders.py FOLDER LOG SLOW_S`."""
import os
import random
import sys
import time

folder, log, slow_s = sys.argv[1], sys.argv[2], float(sys.argv[3])
label = os.open("/dev/null", os.O_WRONLY)
file = os.open(os.path.join(folder, "orders"), os.O_WRONLY | os.O_CREAT)
noted = open(log, "a", buffering=1)
# What nobody keeps: several segments of a recording.
os.write(label, b"KREPLAY1 svc=early txn=early\n")
for _ in range(20_000):
    os.pwrite(file, b"early", 0)
os.write(label, b"KREPLAY1 end\n")
number = 0
while not os.path.exists(os.path.join(folder, "end")):
    number += 1
    is_slow = random.random() < 0.05
    os.write(label, b"KREPLAY1 svc=shop txn=order-%d\n" % number)
    began_s = time.monotonic()
    os.pwrite(file, b"begun", 0)
    time.sleep(slow_s if is_slow else 0.002)
    os.pwrite(file, b"done", 0)
    took_s = time.monotonic() - began_s
    os.write(label, b"KREPLAY1 end\n")
    # An order may be slow by chance, on a busy machine: those near the limit are neither.
    kind = "slow" if is_slow else "quick" if took_s < slow_s / 2 else "unclear"
    noted.write(f"order-{number} {kind}\n")
