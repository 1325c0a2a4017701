# Prints each datagram that arrives at a socket, after its sender's pid, as a line: the messages that a service manager
# gets.
import os
import socket
import struct
import sys

path = sys.argv[1]
if os.path.exists(path):
    os.unlink(path)
received = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
received.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
received.bind(path)
os.chmod(path, 0o777)
print("listening", flush=True)
while True:
    data, beside, _, _ = received.recvmsg(4096, socket.CMSG_SPACE(struct.calcsize("3i")))
    pid, _, _ = struct.unpack("3i", beside[0][2])
    print(pid, data.decode().replace("\n", " "), flush=True)
