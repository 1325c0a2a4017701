/** Server-sent events: what a frame looks like, and what a response says before the first one. */
import type { ServerResponse } from 'node:http';
import type { Response } from 'express';

/** How long a client waits before it connects again. */
export const RETRY_MS = 2000;
export const HEARTBEAT = ': hb\n\n';

export type Sink = Pick<ServerResponse, 'write' | 'end' | 'destroy' | 'on' | 'socket'>;

/** `json` has no raw line breaks, which is all that could break a frame; JSON.stringify never leaves one. */
export function formatFrame(kind: string, json: string, id?: number | string): string {
  return frameHead(kind, id) + json + FRAME_END;
}

/** What comes before the JSON. */
export function frameHead(kind: string, id?: number | string): string {
  return `event: ${kind}\n${id === undefined ? '' : `id: ${id}\n`}data: `;
}

export const FRAME_END = '\n\n';

export function openEventStream(res: Response): void {
  res.status(200).set({
    'Cache-Control': 'no-store',
    // nginx would hold frames back.
    'X-Accel-Buffering': 'no',
  });
  // Express would add a charset, which the format does not have.
  res.setHeader('Content-Type', 'text/event-stream');
  res.flushHeaders();
}
