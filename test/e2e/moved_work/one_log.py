"""FOLDER [TRANSACTION]: does what one_log.go does, with each request on any of three threads."""

import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

folder, is_recorded = sys.argv[1], len(sys.argv) > 2
log = os.open(folder + "/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
if is_recorded:
    os.write(os.open("/dev/null", os.O_WRONLY), b"KREPLAY1 proc txn=%s" % sys.argv[2].encode())
threads = [ThreadPoolExecutor(1) for _ in range(3)]


def request(number):
    start = time.monotonic()
    os.write(log, b"request %d\n" % number)
    os.fsync(log)
    return time.monotonic() - start


slow = []
for number in range(60):
    if number == 31 and is_recorded:
        subprocess.run(["fsfreeze", "--freeze", folder], check=True)
        subprocess.Popen(["sh", "-c", f"sleep 0.3; fsfreeze --unfreeze {folder}"])
    if random.choice(threads).submit(request, number).result() > 0.25:
        slow.append(number)
print(*slow, sep=",")
