/** Measures how many bytes of a connection its client has taken. */
import { createRequire } from 'node:module';
import type { Socket } from 'node:net';

/** The part of the addon native/system that this file calls. */
interface NativeSystem {
  unsentBytes(fd: number): number;
}

const native: NativeSystem = createRequire(import.meta.url)('#system');

/** Node's internal handle of a TCP or Unix socket. */
interface Handle {
  fd: number;
  /** Number of bytes that were passed to the handle. */
  bytesWritten: number;
  /** Number of these bytes that the handle has not yet passed to the kernel. */
  writeQueueSize: number;
  /** Under TLS, the handle for the encrypted bytes. */
  _parent?: Handle;
}

/** Maps each socket to the number of bytes that other threads have written to it. Node does not count these bytes. */
const directBytes = new WeakMap<Socket, number>();

export function addDirectBytes(socket: Socket, bytes: number): void {
  directBytes.set(socket, (directBytes.get(socket) ?? 0) + bytes);
}

/**
 * Returns the number of bytes that the client has taken. Bytes in the kernel's send buffer are not counted as taken:
 * the buffer contains megabytes, and while a slow client empties it, the process writes nothing for minutes.
 */
export function readBytesTaken(socket: Socket): number {
  const own = (socket as Socket & { _handle?: Handle | null })._handle;
  const handle = own?._parent ?? own;
  if (!handle) return 0;
  const written = handle.bytesWritten + (directBytes.get(socket) ?? 0);
  return written - handle.writeQueueSize - native.unsentBytes(handle.fd);
}

/** Returns the descriptor of a socket that is not encrypted; undefined under TLS, or when the socket is closed. */
export function findPlainDescriptor(socket: Socket): number | undefined {
  const handle = (socket as Socket & { _handle?: Handle | null })._handle;
  return handle && !handle._parent && handle.fd >= 0 ? handle.fd : undefined;
}
