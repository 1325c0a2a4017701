/** Server-sent events: the format of a frame and the destination of frames. */
import type { ServerResponse } from 'node:http';

/** Milliseconds that a client waits before it reconnects. */
export const RETRY_MS = 2000;
export const HEARTBEAT = ': hb\n\n';

/** Destination of frames. It emits `drain` after a write that returned false. */
export interface Sink extends Pick<ServerResponse, 'end' | 'destroy'> {
  write(frames: string): boolean;
  /** Writes `bytes` bytes, which `fill` puts into a buffer at an offset. `fill` is called once, before this returns. */
  writeBytes(bytes: number, fill: (to: Buffer, at: number) => void): boolean;
  on(event: 'close' | 'drain' | 'error', listener: () => void): unknown;
}

/** `json` must not contain raw line breaks, the only characters that break a frame; JSON.stringify emits none. */
export function formatFrame(kind: string, json: string, id?: number | string): string {
  return `${id === undefined ? frameStart(kind) : frameStart(kind) + BEFORE_ID + id}${BEFORE_JSON}${json}${FRAME_END}`;
}

export const frameStart = (kind: string): string => `event: ${kind}`;
export const BEFORE_ID = '\nid: ';
export const BEFORE_JSON = '\ndata: ';
export const FRAME_END = '\n\n';
