"""
An HTTP server on an event loop: asyncio.

  coroutines.py FOLDER MODE     # prints its port, exits at the end of its standard input

MODE: `streams`; `mark`, streams whose handlers label the thread, once; `callbacks`, a protocol: the loop itself calls
the code that writes the lines, so a request may be read and another one's timer end in the same turn; `busy`, the same,
but the loop is held up after each answer, so that this happens.
"""
import asyncio
import os
import sys
import time

folder, mode = sys.argv[1:]
HELD_UP_S = 0.02
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def write_line(path, line):
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, line.encode())
    os.close(file)


def parse(head):
    """Returns the path, the milliseconds and the trace."""
    first, *lines = head.decode().split("\r\n")
    path, _, wait = first.split(" ")[1].partition("?")
    traces = [line.split("-")[1] for line in lines if line.startswith("traceparent:")]
    return folder + path, int(wait), traces[0] if traces else "-"


async def serve(reader, writer):
    try:
        while True:
            path, wait, trace = parse(await reader.readuntil(b"\r\n\r\n"))
            if mode == "mark":
                write_line("/dev/null", f"KREPLAY1 trace={trace}\n")
            write_line(path, f"before {trace}\n")
            await asyncio.sleep(wait / 1000)
            write_line(path, f"after {trace}\n")
            writer.write(ANSWER)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


class Callbacks(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, head):
        path, wait, trace = parse(head)
        write_line(path, f"before {trace}\n")
        asyncio.get_running_loop().call_later(wait / 1000, self.answer, path, trace)

    def answer(self, path, trace):
        write_line(path, f"after {trace}\n")
        self.transport.write(ANSWER)
        if mode == "busy":
            time.sleep(HELD_UP_S)


async def main():
    loop = asyncio.get_running_loop()
    if mode in ("callbacks", "busy"):
        server = await loop.create_server(Callbacks, "127.0.0.1", 0)
    else:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    os._exit(0)


asyncio.run(main())
