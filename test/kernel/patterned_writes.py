"""Writes blocks that name their owner: FILE TRANSACTION HOW FIRST COUNT STEP; HOW is write, fsync, direct or mmap."""

import mmap
import os
import sys

BLOCK = 4096

path, transaction, how, first, count, step = sys.argv[1:]
first, count, step = int(first), int(count), int(step)

marker = os.open("/dev/null", os.O_WRONLY)
os.write(marker, f"KREPLAY1 txn={transaction}\n".encode())

pattern = f"<{transaction}>".encode()
# Anonymous memory begins on a page, as O_DIRECT requires.
block = mmap.mmap(-1, BLOCK)
block.write((pattern * BLOCK)[:BLOCK])

flags = os.O_RDWR | os.O_CREAT | (os.O_DIRECT if how == "direct" else 0)
file = os.open(path, flags, 0o644)
offsets = [(first + i * step) * BLOCK for i in range(count)]
if how == "mmap":
    size = max(os.fstat(file).st_size, offsets[-1] + BLOCK)
    os.posix_fallocate(file, 0, size)
    stores = mmap.mmap(file, size)
    for offset in offsets:
        stores[offset : offset + BLOCK] = block[:]
else:
    for offset in offsets:
        os.pwrite(file, block, offset)
        if how == "fsync":
            os.fdatasync(file)
