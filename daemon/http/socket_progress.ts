/** Measures how many of the bytes written to a connection have been taken by its client. */
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

/** Number of bytes that another thread has written to a socket. Node does not know about them. */
const directBytes = new WeakMap<Socket, number>();

export function addDirectBytes(socket: Socket, bytes: number): void {
  directBytes.set(socket, (directBytes.get(socket) ?? 0) + bytes);
}

/**
 * Counts the bytes that the client has taken, including bytes that the kernel had buffered: while a slow client reads
 * these megabytes, it takes nothing from the process for minutes.
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
