/** A client of a live tail. */
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { createParser } from 'eventsource-parser';
import { parseJson } from '../../../daemon/base/exact_json.ts';
import type { Frame } from '../replay/frames.ts';
import type { Served } from '../served.ts';

export interface Tailed {
  readonly frames: Frame[];
  readonly comments: string[];
  /** Resolves when there are that many frames, or when the condition holds. */
  until(wanted: number | ((frames: readonly Frame[]) => boolean)): Promise<Frame[]>;
  readonly res: IncomingMessage;
  /** Resolves when the answer is over, with whether it was complete. */
  ended: Promise<boolean>;
  /** Event ids in the order of their frames. */
  ids(): string[];
  leave(): Promise<void>;
}

export async function tail(served: Served, query = '', headers: Record<string, string> = {}): Promise<Tailed> {
  const res = await served.open(`/api/events${query}`, { headers: { accept: 'text/event-stream', ...headers } });
  return tailOf(res);
}

export function tailOf(res: IncomingMessage): Tailed {
  const frames: Frame[] = [];
  const comments: string[] = [];
  let changed = () => {};
  const parser = createParser({
    onEvent({ event = 'message', id, data }) {
      frames.push({ event, id, text: data, data: parseJson(data) });
    },
    onComment: (comment) => comments.push(comment),
  });
  const decoder = new TextDecoder();
  res.on('data', (chunk) => {
    parser.feed(decoder.decode(chunk, { stream: true }));
    changed();
  });
  res.on('error', () => {});
  const ended = new Promise<boolean>((resolve) => res.once('close', () => resolve(res.complete)));
  return {
    frames,
    comments,
    res,
    ended,
    async until(wanted) {
      const isEnough = typeof wanted === 'number' ? () => frames.length >= wanted : () => wanted(frames);
      while (!isEnough()) await new Promise<void>((resolve) => (changed = resolve));
      return frames;
    },
    ids: () => frames.flatMap(({ event, data }) => (event === 'event' ? [data.event_id] : [])),
    async leave() {
      if (res.destroyed) return;
      res.destroy();
      await once(res, 'close');
    },
  };
}
