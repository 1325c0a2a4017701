/** One event a line, as the API's own NDJSON. */
import { stringify } from '../json.ts';
import type { Encoder } from './format.ts';

export function ndjsonEncoder(): Encoder {
  return {
    head: () => '',
    events: (events) => events.map((event) => `${stringify(event)}\n`).join(''),
    tail: () => '',
  };
}
