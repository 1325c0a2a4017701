"""Runs tasks on the threads of a pool. The size of a write identifies its task."""
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

out = open(sys.argv[1], 'ab', buffering=0)


def mark(fields):
    Path('/dev/null').write_text(f'KREPLAY1 {fields}\n')


def say(size):
    out.write(b'.' * size)


def say_for(order, size):
    mark(f'txn={order}')
    say(size)
    mark('end')


with ThreadPoolExecutor(max_workers=1) as pool:
    mark('txn=creator')
    pool.submit(say, 101).result()
    mark('txn=other')
    pool.submit(say, 102).result()
    pool.submit(say_for, 'task', 103).result()
    pool.submit(say, 104).result()

mark('txn=creator')
with ThreadPoolExecutor(max_workers=4) as pool:
    list(pool.map(say, [105] * 4))
    mark('end')
    tasks = []
    for number in range(100):
        tasks.append(pool.submit(say_for, f'task-{number}', 1000 + number))
        tasks.append(pool.submit(say, 2000 + number))
    for task in tasks:
        task.result()
