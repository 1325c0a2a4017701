"""Owners write to files of FOLDER in the ways that programs do, their names in every sector: ROUNDS FOLDER."""

import ctypes
import mmap
import os
import sys

SECTOR, PAGE = 512, 4096
rounds, folder = int(sys.argv[1]), sys.argv[2]


def by(owner, work):
    """The owner is a process of its own with a transaction of this name."""
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0, owner
        return
    marker = os.open("/dev/null", os.O_WRONLY)
    os.write(marker, f"KREPLAY1 txn={owner}\n".encode())
    try:
        work(lambda sectors: (f"<{owner}>".encode() * SECTOR)[:SECTOR] * sectors)
    except BaseException as error:
        print(owner, error, file=sys.stderr)
        os._exit(1)
    os._exit(0)


def opened(name, flags=0):
    return os.open(f"{folder}/{name}", os.O_RDWR | os.O_CREAT | flags, 0o644)


def write(name, offsets, sectors, flags=0):
    def work(data):
        file = opened(name, flags)
        for offset in offsets:
            os.pwrite(file, data(sectors), offset)

    return work


def write_direct(name, offsets):
    def work(data):
        page = mmap.mmap(-1, PAGE)
        page.write(data(8))
        file = opened(name, os.O_DIRECT)
        for offset in offsets:
            os.pwritev(file, [page], offset)

    return work


def store(name, offsets):
    def work(data):
        file = opened(name)
        stores = mmap.mmap(file, os.fstat(file).st_size)
        for offset in offsets:
            stores[offset : offset + PAGE] = data(8)
        stores.close()

    return work


def sync():
    folder_file = os.open(folder, os.O_RDONLY)
    assert ctypes.CDLL(None).syncfs(folder_file) == 0
    os.close(folder_file)


def base(name):
    """A file with blocks on the disk, for one scenario: what a later one wrote over could not be judged."""
    file = opened(name)
    os.write(file, bytes(1 << 20))
    os.fsync(file)
    return name


PAGES = [PAGE * 2 * k for k in range(8)]

for i in range(rounds):
    name = lambda what: f"{what}-{i}"
    # Pages of many owners, none beside another's; and the same again, each the owner of another's page.
    shared = base(name("shared"))
    for turn in range(2):
        for owner in range(4):
            pages = [PAGE * (2 * (4 * k + (owner + turn) % 4)) for k in range(8)]
            by(name(f"own{owner}t{turn}"), write(shared, pages, 8))
        sync()
    # Parts of a page by two; a page that the second replaces.
    parts = base(name("parts"))
    by(name("left"), write(parts, PAGES, 2))
    by(name("right"), write(parts, [offset + 1024 for offset in PAGES], 2))
    sync()
    replaced = base(name("replaced"))
    by(name("first"), write(replaced, PAGES, 8))
    by(name("second"), write(replaced, PAGES, 8))
    sync()
    # A store through a map over a write, and a write over a store.
    stored = base(name("stored"))
    by(name("written"), write(stored, PAGES, 1))
    by(name("storer"), store(stored, PAGES))
    sync()
    over = base(name("over"))
    by(name("stored-first"), store(over, PAGES))
    by(name("written-over"), write(over, PAGES, 8))
    sync()
    # Data that never reaches the disk, in a file that is then written again.
    by(name("discarded"), write(name("again"), [k * PAGE for k in range(8)], 8))
    os.truncate(f"{folder}/{name('again')}", 0)
    by(name("rewritten"), write(name("again"), [k * PAGE for k in range(8)], 8))
    sync()
    by(name("direct"), write_direct(base(name("direct")), PAGES))
    synced = base(name("synced"))
    by(name("beside"), write(synced, PAGES, 8))
    by(name("synced"), write(synced, [offset + PAGE for offset in PAGES], 8, os.O_SYNC))
    # A log to which two append by turns.
    for k in range(8):
        by(name(f"log{k % 2}"), lambda data: os.write(opened(name("log"), os.O_APPEND), data(1)))
    sync()
