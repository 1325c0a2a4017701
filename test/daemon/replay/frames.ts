/** Reads a stream as a client does. */
import { createParser } from 'eventsource-parser';
import { parseJson } from '../../../daemon/base/exact_json.ts';

export interface Frame {
  event: string;
  id: string | undefined;
  /** The data as received. */
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into it as it likes
  data: any;
}

export function framesOf(text: string): Frame[] {
  const frames: Frame[] = [];
  createParser({
    onEvent: ({ event = 'message', id, data }) => frames.push({ event, id, text: data, data: parseJson(data) }),
  }).feed(text);
  return frames;
}
