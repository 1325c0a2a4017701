/** How much of what was written to a connection its client has taken. */
import { createRequire } from 'node:module';
import type { Socket } from 'node:net';

/** native/socket */
interface NativeSocket {
  unsentBytes(fd: number): number;
}

const native: NativeSocket = createRequire(import.meta.url)('#socket');

/** Node's own, of a TCP or Unix socket. */
interface Handle {
  fd: number;
  /** Handed to it. */
  bytesWritten: number;
  /** Of these, what it has not handed to the kernel. */
  writeQueueSize: number;
  /** Under TLS, where the encrypted bytes go. */
  _parent?: Handle;
}

/**
 * Grows when the client takes bytes: from the process, or from what the kernel holds for it, which is megabytes. So a
 * client that reads slowly takes nothing from the process for minutes.
 */
export function takenBytes(socket: Socket): number {
  const own = (socket as Socket & { _handle?: Handle | null })._handle;
  const handle = own?._parent ?? own;
  return handle ? handle.bytesWritten - handle.writeQueueSize - native.unsentBytes(handle.fd) : 0;
}
