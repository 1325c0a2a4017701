"""Stores orders in FOLDER/orders.log, each by another thread while the caller waits at most TIMEOUT seconds.

Prints how many seconds each order took, by the client's own clock; the exit code is 1 if a caller gave up.
"""

import concurrent.futures
import os
import sys
import time

folder, timeout = sys.argv[1], float(sys.argv[2])
log = os.open(os.path.join(folder, 'orders.log'), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def store(order):
    began = time.monotonic()
    os.write(log, f'order {order}\n'.encode() * 1000)
    os.fsync(log)
    return time.monotonic() - began


status = 0
with concurrent.futures.ThreadPoolExecutor(1) as disk:
    for order in range(6):
        stored = disk.submit(store, order)
        try:
            stored.result(timeout)
        except concurrent.futures.TimeoutError:
            status = 1
        print(f'{stored.result():.6f}')
sys.exit(status)
