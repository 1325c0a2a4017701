/** Measures how many of the bytes written to a connection its client has taken. */
import { createRequire } from 'node:module';
import type { Socket } from 'node:net';

/** The addon native/system, as far as this file calls it. */
interface NativeSystem {
  unsentBytes(fd: number): number;
}

const native: NativeSystem = createRequire(import.meta.url)('#system');

/** Node's internal handle of a TCP or Unix socket. */
interface Handle {
  fd: number;
  /** Bytes that were handed to the handle. */
  bytesWritten: number;
  /** Number of these bytes that the handle has not passed to the kernel yet. */
  writeQueueSize: number;
  /** The handle for the encrypted bytes, under TLS. */
  _parent?: Handle;
}

/** Bytes that another thread has written to a socket, which Node does not know of. */
const directBytes = new WeakMap<Socket, number>();

export function addDirectBytes(socket: Socket, bytes: number): void {
  directBytes.set(socket, (directBytes.get(socket) ?? 0) + bytes);
}

/**
 * Counts the bytes that the client has taken, including those that the kernel had buffered: while a slow client reads
 * these megabytes, it takes nothing from the process for minutes.
 */
export function readBytesTaken(socket: Socket): number {
  const own = (socket as Socket & { _handle?: Handle | null })._handle;
  const handle = own?._parent ?? own;
  if (!handle) return 0;
  const written = handle.bytesWritten + (directBytes.get(socket) ?? 0);
  return written - handle.writeQueueSize - native.unsentBytes(handle.fd);
}

/** The descriptor of a socket that is not encrypted; undefined under TLS, or when it is closed. */
export function findPlainDescriptor(socket: Socket): number | undefined {
  const handle = (socket as Socket & { _handle?: Handle | null })._handle;
  return handle && !handle._parent && handle.fd >= 0 ? handle.fd : undefined;
}
