"""
Makes a read of two bios, the first of which fails: where the kernel lets each bio fail for itself, such a request ends
in parts. Prints the disk and how many reads it has ended meanwhile.

The disk is that of scsi_debug, which cannot read from sector 0x1234 on when its options say so. It takes one command at
a time and a second for each: so the two bios wait, and the scheduler merges them.
"""
import mmap
import os
import threading
import time

DRIVER = "/sys/bus/pseudo/drivers/scsi_debug/"
MEDIUM_ERRORS = "2"
SECTOR = 512
WAIT_S = 0.2

name = next(disk for disk in os.listdir("/sys/block") if disk.startswith("sd"))


def put(path, text):
    with open(path, "w") as file:
        file.write(text)


def reads_ended():
    with open(f"/sys/block/{name}/stat") as stat:
        return int(stat.read().split()[0])


def read(sector, size):
    try:
        os.preadv(direct, [mmap.mmap(-1, size)], sector * SECTOR)
    except OSError:
        pass


put(f"/sys/block/{name}/queue/scheduler", "mq-deadline")
put(f"/sys/block/{name}/device/queue_depth", "1")
direct = os.open("/dev/" + name, os.O_RDONLY | os.O_DIRECT)
buffered = os.open("/dev/" + name, os.O_RDONLY)
before = reads_ended()
put(DRIVER + "opts", MEDIUM_ERRORS)
put(DRIVER + "ndelay", "999999999")
busy = threading.Thread(target=read, args=(0, 4096))
second = threading.Thread(target=read, args=(4664, 32768))
busy.start()
time.sleep(WAIT_S)
# Read-ahead may fail without another attempt, an ordinary read may not.
os.posix_fadvise(buffered, 4656 * SECTOR, 4096, os.POSIX_FADV_WILLNEED)
time.sleep(WAIT_S)
second.start()
busy.join()
second.join()
print(name, reads_ended() - before)
