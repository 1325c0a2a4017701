/** Server-sent events: what a frame looks like, and where frames go. */
import type { ServerResponse } from 'node:http';

/** How long a client waits before it connects again. */
export const RETRY_MS = 2000;
export const HEARTBEAT = ': hb\n\n';

/** Where frames go. `drain` is told after a write that gave false. */
export interface Sink extends Pick<ServerResponse, 'end' | 'destroy'> {
  write(frames: string): boolean;
  /** So many bytes, which `fill` puts into a buffer, at a place in it. Called once, before this returns. */
  writeBytes(bytes: number, fill: (to: Buffer, at: number) => void): boolean;
  on(event: 'close' | 'drain' | 'error', listener: () => void): unknown;
}

/** `json` has no raw line breaks, which is all that could break a frame; JSON.stringify never leaves one. */
export function formatFrame(kind: string, json: string, id?: number | string): string {
  return `${id === undefined ? frameStart(kind) : frameStart(kind) + BEFORE_ID + id}${BEFORE_JSON}${json}${FRAME_END}`;
}

export const frameStart = (kind: string): string => `event: ${kind}`;
export const BEFORE_ID = '\nid: ';
export const BEFORE_JSON = '\ndata: ';
export const FRAME_END = '\n\n';
