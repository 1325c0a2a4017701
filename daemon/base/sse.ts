/** Server-sent events: the format of a frame and the destination of frames. */

/** Milliseconds that a client waits before it reconnects. */
export const RETRY_MS = 2000;
export const HEARTBEAT = ': hb\n\n';

/** Destination of frames. A sink emits `drain` after a write that returned false. */
export interface Sink {
  write(frames: string): boolean;
  /**
   * Writes `bytes` bytes: `fill` must put the bytes into the given buffer at the given offset. It is called once,
   * before this method returns.
   */
  writeBytes(bytes: number, fill: (to: Buffer, at: number) => void): boolean;
  end(frames?: string): unknown;
  destroy(): unknown;
  on(event: 'close' | 'drain' | 'error', listener: () => void): unknown;
  /**
   * Returns the socket if another thread may write to it now: the socket is not encrypted, and no data waits to be
   * written.
   */
  findDirectSocket?(): { fd: number; isChunked: boolean } | undefined;
  /** Reports that another thread has written this many bytes to the socket. */
  reportDirectWrite?(bytes: number): void;
  /** Writes the rest of the data that another thread has begun to write to the socket. */
  writeRest?(bytes: Buffer): boolean;
}

/**
 * Formats a frame. `json` must contain no raw line breaks, which are the only characters that break a frame;
 * JSON.stringify emits none.
 */
export function formatFrame(kind: string, json: string, id?: number | string): string {
  const head = id === undefined ? `event: ${kind}` : `event: ${kind}\nid: ${id}`;
  return `${head}\ndata: ${json}\n\n`;
}
