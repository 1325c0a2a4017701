"""Fills a pipe, says when, and writes to it once more: the write lasts until a line is given. It says when it ended.

usage: blocked_write.py TRANSACTION|- [QUIET_SECONDS] [THREADS]
"""

import os
import sys
import threading
import time

transaction, quiet, threads = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
null = os.open('/dev/null', os.O_WRONLY)
if transaction != '-':
    os.write(null, f'KREPLAY1 txn={transaction}'.encode())
pipes = [os.pipe() for _ in range(threads)]
os.write(os.open('/tmp', os.O_TMPFILE | os.O_WRONLY), b'first')
for _, end in pipes:
    os.write(end, b'x' * 65536)
time.sleep(quiet)
if transaction != '-':
    os.write(null, b'KREPLAY1 end')
print(time.time_ns(), flush=True)
if transaction != '-':
    os.write(null, f'KREPLAY1 txn={transaction}'.encode())
writers = [threading.Thread(target=os.write, args=(end, b'y' * 1000)) for _, end in pipes[1:]]
for writer in writers:
    writer.start()


def release():
    sys.stdin.readline()
    for start, _ in pipes:
        os.read(start, 65536)


threading.Thread(target=release).start()
os.write(pipes[0][1], b'y' * 1000)
for writer in writers:
    writer.join()
print(time.time_ns(), flush=True)
