"""Writes lines that may or may not be markers: FILE, and on standard input a list of steps as JSON.

Each step first marks its base as the transaction, then writes its parts in its own way, and then writes as many bytes
to FILE as its number is: the owner of that write shows what became of the parts.
"""

import ctypes
import json
import mmap
import os
import sys

PAGE = mmap.PAGESIZE

libc = ctypes.CDLL(None, use_errno=True)
libc.write.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

out = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
null = os.open("/dev/null", os.O_WRONLY)
zero = os.open("/dev/zero", os.O_WRONLY)
log = os.open(sys.argv[1] + ".log", os.O_WRONLY | os.O_CREAT, 0o600)
closed = os.dup(null)
os.close(closed)

# Mapped before the pages below: a later mapping would fill the gap in them.
vector = libc.mmap(None, PAGE, 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)

# Two pages, of which the second is unmapped.
pages = libc.mmap(None, 2 * PAGE, 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
libc.munmap(pages + PAGE, PAGE)


def write_across(first, rest):
    """Writes two parts, of which the first ends with the page."""
    at = pages + PAGE - len(first)
    ctypes.memmove(at, first, len(first))
    return libc.write(null, at, len(first) + len(rest))


def write_untouched(text):
    """Writes from a file's page that is not in memory, and is not read ahead with its neighbour."""
    path = sys.argv[1] + ".text"
    with open(path, "wb") as file:
        file.write(bytes(PAGE) + text)
    with open(path, "rb") as file:
        at = libc.mmap(None, 2 * PAGE, mmap.PROT_READ, mmap.MAP_PRIVATE, file.fileno(), 0)
    libc.madvise(at, 2 * PAGE, mmap.MADV_RANDOM)
    return libc.write(null, at + PAGE, len(text))


def write_by_untouched_vector():
    """Writes by a vector whose page is absent until something is stored in it; the vector is empty then."""
    libc.madvise(vector, PAGE, mmap.MADV_DONTNEED)
    return libc.writev(null, ctypes.c_void_p(vector), 1)


def write_all(fd, parts):
    for part in parts:
        os.write(fd, part)


WAYS = {
    "write": lambda parts: write_all(null, parts),
    "writev": lambda parts: os.writev(null, parts),
    "pwrite64": lambda parts: os.pwrite(null, parts[0], 4096),
    "pwritev": lambda parts: os.pwritev(null, parts, 0),
    "pwritev2": lambda parts: os.pwritev(null, parts, 0, os.RWF_DSYNC),
    "to /dev/zero": lambda parts: write_all(zero, parts),
    "to a file": lambda parts: write_all(log, parts),
    "to a closed descriptor": lambda parts: write_all(closed, parts),
    "of a page that is not there": lambda parts: libc.write(null, pages + PAGE, len(parts[0])),
    "of a page that nothing has touched": lambda parts: write_untouched(parts[0]),
    "of address 0": lambda parts: libc.write(null, 0, len(parts[0])),
    "by a vector that nothing has touched": lambda parts: write_by_untouched_vector(),
    "by a vector at address 0": lambda parts: libc.writev(null, None, 1),
    "across a page that is not there": lambda parts: write_across(parts[0], parts[1]),
}

for number, step in enumerate(json.load(sys.stdin), start=1):
    os.write(null, f"KREPLAY1 txn={step['base']}".encode())
    try:
        WAYS[step["how"]]([bytes.fromhex(part) for part in step["parts"]])
    except OSError:
        pass
    os.write(out, b"." * number)
