# Prints each datagram that arrives at a socket, as a line: the messages that a service manager gets.
import os
import socket
import sys

path = sys.argv[1]
if os.path.exists(path):
    os.unlink(path)
received = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
received.bind(path)
os.chmod(path, 0o777)
print("listening", flush=True)
while True:
    print(received.recv(4096).decode().replace("\n", " "), flush=True)
